#include "backend/add.h"

#include "tests/support/operands.h"
#include "tests/support/operation_case.h"

namespace ventris::testing {
namespace {

/// Masters: in f64 on every device.
class Add : public OperationTest {};
VENTRIS_FOR_CASES(Add, cases_of_length({DType::kF32, DType::kF64}, {1, 3, 7, 64, 5003, 40'001}));

Buffer sum_of(const Buffer& a, const Buffer& b, DType dtype) {
  Buffer sum(1, a.size(), dtype);
  for (int64_t i = 0; i < a.size(); ++i) sum.set(i, a.get(i) + b.get(i));
  return sum;
}

TEST_P(Add, HasTheBitsOfTheReferenceAlsoInPlace) {
  const DType dtype = GetParam().dtype;
  const int64_t n = GetParam().size.cols;
  Buffer a = Buffer::random(1, n, dtype, 1);
  Buffer b = Buffer::random(1, n, dtype, 2);
  if (n > 1 && dtype == DType::kF64) a.set(1, 1e300), b.set(1, 1e300);
  const Buffer expected = sum_of(a, b, dtype);
  for (const int64_t first : {0, 1}) {  // 1: not aligned
    const auto shifted = [&](const Buffer& x) {
      Buffer wider(1, first + n, dtype);
      for (int64_t i = 0; i < n; ++i) wider.set(first + i, x.get(i));
      return wider;
    };
    const MatrixOperand device_a(shifted(a)), device_b(shifted(b)), sum(shifted(Buffer(1, n, dtype)));
    const auto part = [&](const MatrixOperand& whole) { return whole.view().col_range(first, n); };
    const auto expect = [&](const char* name, const MatrixOperand& got, const Buffer& values) {
      expect_same_bits(name, got, shifted(values));
    };
    add(test_context(), {.a = part(device_a), .b = part(device_b), .sum = part(sum)});
    expect("sum", sum, expected);
    add(test_context(), {.a = part(device_b), .sum = part(sum)});
    expect("copy", sum, b);
    add(test_context(), {.a = part(device_a), .b = part(sum), .sum = part(sum)});
    expect("sum in the place of b", sum, expected);
    add(test_context(), {.a = part(device_a), .b = part(device_b), .sum = part(device_a)});
    expect("sum in the place of a", device_a, expected);
  }
}

TEST(AddOfOtherShapesAndDtypes, IsRefused) {
  const MatrixOperand f(1, 4, DType::kF32), longer(1, 5, DType::kF32), d(1, 4, DType::kF64);
  EXPECT_THROW(add(test_context(), {.a = f.view(), .b = longer.view(), .sum = f.view()}), Error);
  EXPECT_THROW(add(test_context(), {.a = longer.view(), .sum = f.view()}), Error);
  EXPECT_THROW(add(test_context(), {.a = f.view(), .b = d.view(), .sum = f.view()}), Error);
}

}  // namespace
}  // namespace ventris::testing
