// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/add.h"

#include <bit>
#include <deque>
#include <numeric>
#include <vector>

#include "tests/support/operands.h"
#include "tests/support/operation_case.h"

namespace ventris::testing {
namespace {

/// Masters: in f64 on every device.
class Add : public OperationTest {};
VENTRIS_FOR_CASES(Add, cases_of_length({DType::kF32, DType::kF64}, {1, 3, 7, 64, 5003, 40'001}));

Buffer sum_of(const Buffer& older, const Buffer& newer, DType dtype) {
  Buffer sum(1, older.size(), dtype);
  for (int64_t i = 0; i < older.size(); ++i) sum.set(i, older.get(i) + newer.get(i));
  return sum;
}

/// Terms on the device, each with a NaN before it, which must stay, if they are not aligned.
class Terms {
 public:
  Terms(int64_t n, DType dtype, bool aligned) : n_(n), dtype_(dtype), first_(aligned ? 0 : 1) {}

  /// A further one; random unless values are given.
  Tensor add(const Buffer& values) {
    Buffer wider(1, first_ + n_, dtype_);
    for (int64_t i = 0; i < n_; ++i) wider.set(first_ + i, values.get(i));
    operands_.emplace_back(wider);
    return operands_.back().view().col_range(first_, n_);
  }
  Tensor add() { return add(Buffer::random(1, n_, dtype_, static_cast<int>(operands_.size()) + 1)); }
  Buffer get(size_t i) const {
    const Buffer wider = operands_[i].get();
    Buffer values(1, n_, dtype_);
    for (int64_t j = 0; j < n_; ++j) values.set(j, wider.get(first_ + j));
    return values;
  }
  void expect(const char* name, size_t i, const Buffer& expected) const {
    const Buffer got = get(i);
    for (int64_t j = 0; j < n_; ++j) ASSERT_EQ(got.get(j), expected.get(j)) << name << ", element " << j;
  }

 private:
  int64_t n_;
  DType dtype_;
  int64_t first_;
  std::deque<MatrixOperand> operands_;
};

/// The sum of the terms by the steps.
Buffer reference(const std::vector<Buffer>& terms, const std::vector<int>& additions, DType dtype) {
  std::vector<Buffer> sums;
  for (size_t i = 0; i < terms.size(); ++i) {
    sums.push_back(terms[i]);
    for (int k = 0; k < additions[i]; ++k) {
      const Buffer newest = sums.back();
      sums.pop_back();
      sums.back() = sum_of(sums.back(), newest, dtype);
    }
  }
  return sums.at(0);
}

TEST_P(Add, CopiesAndAddsAlsoInPlace) {
  const DType dtype = GetParam().dtype;
  for (const bool aligned : {true, false}) {
    Terms terms(GetParam().size.cols, dtype, aligned);
    const Tensor a = terms.add(), b = terms.add(), c = terms.add(), copy = terms.add(), sum = terms.add();
    const Buffer of_a = terms.get(0), of_b = terms.get(1), of_c = terms.get(2);
    add(test_context(), {.steps = {{.term = a, .additions = 0, .sum = copy},
                                   {.term = a, .additions = 0},
                                   {.term = b, .additions = 1, .sum = sum},
                                   {.term = b, .additions = 0},
                                   {.term = c, .additions = 1, .sum = b}}});
    terms.expect("copy", 3, of_a);
    terms.expect("sum", 4, sum_of(of_a, of_b, dtype));
    terms.expect("in the place of an earlier term", 1, sum_of(of_b, of_c, dtype));
    add(test_context(), {.steps = {{.term = sum, .additions = 0}, {.term = c, .additions = 1, .sum = c}}});
    terms.expect("in its own place", 2, sum_of(sum_of(of_a, of_b, dtype), of_c, dtype));
  }
}

/// The additions after each of `terms` terms: a balanced tree as far as they go, and the rest at the end.
std::vector<int> of_a_tree(int terms) {
  std::vector<int> additions;
  for (int i = 1; i <= terms; ++i) additions.push_back(std::countr_zero(static_cast<unsigned>(i)));
  additions.back() += terms - 1 - std::accumulate(additions.begin(), additions.end(), 0);
  return additions;
}

std::vector<int> of_a_chain(int terms) {
  std::vector<int> additions(static_cast<size_t>(terms), 1);
  additions[0] = 0;
  return additions;
}

TEST(AddOfManyTerms, GoesByTheSteps) {
  constexpr int64_t kElements = 37;
  std::vector<std::vector<int>> shapes = {{0, 1, 0, 2}, {0, 0, 0, 3}, {0, 0, 2, 0, 0, 2, 2}};
  for (const int terms : {7, 128, 129, 300, 1000}) {
    shapes.push_back(of_a_tree(terms));
    shapes.push_back(of_a_chain(terms));
  }
  for (const DType dtype : test_master_dtypes()) {
    for (const std::vector<int>& additions : shapes) {
      const auto count = static_cast<int64_t>(additions.size());
      const Buffer values = Buffer::random(count + 1, kElements, dtype, 1);  // and the place of the sum
      const MatrixOperand terms(values);
      AddArgs args;
      std::vector<Buffer> rows;
      for (int64_t i = 0; i < count; ++i) {
        args.steps.push_back(
            {.term = terms.view().row_range(i, 1), .additions = additions[static_cast<size_t>(i)]});
        rows.emplace_back(1, kElements, dtype);
        for (int64_t j = 0; j < kElements; ++j) rows.back().set(j, values.get(i * kElements + j));
      }
      args.steps.back().sum = terms.view().row_range(count, 1);
      add(test_context(), args);
      const Buffer got = terms.get();
      const Buffer expected = reference(rows, additions, dtype);
      for (int64_t j = 0; j < kElements; ++j)
        ASSERT_EQ(got.get(count * kElements + j), expected.get(j)) << count << " terms";
    }
  }
}

TEST(AddOfOtherShapesDtypesAndOrders, IsRefused) {
  const MatrixOperand f(1, 4, DType::kF32), longer(1, 5, DType::kF32), d(1, 4, DType::kF64);
  const auto refuses = [](const std::vector<AddStep>& steps) {
    EXPECT_THROW(add(test_context(), {.steps = steps}), Error);
  };
  const Tensor term = f.view();
  refuses({});
  refuses({{.term = term, .additions = 0, .sum = longer.view()}});
  refuses({{.term = term, .additions = 0}, {.term = longer.view(), .additions = 1, .sum = term}});
  refuses({{.term = term, .additions = 0}, {.term = d.view(), .additions = 1, .sum = term}});
  refuses({{.term = term, .additions = 1, .sum = term}});
  refuses({{.term = term, .additions = 0}});
  refuses({{.term = term, .additions = 0}, {.term = term, .additions = 0, .sum = term}});
  refuses(std::vector<AddStep>(kMaxPartialSums + 1, {.term = term, .additions = 0}));
}

}  // namespace
}  // namespace ventris::testing
