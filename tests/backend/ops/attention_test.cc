// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/attention.h"

#include "tests/support/attention_operands.h"
#include "tests/support/operation_case.h"

namespace ventris::testing {
namespace {

struct AttentionCase {
  Device device;
  DType dtype;
  const char* lengths;  // what is special in them
  AttentionShape shape;
  float rate;
  bool again;  // a second run, in another context, with lists of work made once for forward and backward
};
std::string name_of(const AttentionCase& c) {
  return device_and_dtype(c.device, c.dtype) + "_" + c.lengths + (c.shape.causal ? "_causal" : "") + "_" +
         std::to_string(c.shape.heads) + "x" + std::to_string(c.shape.d_head) + suffix("gap", c.shape.gap) +
         suffix("rate", std::lround(100.0F * c.rate));
}
std::ostream& operator<<(std::ostream& out, const AttentionCase& c) {
  return out << name_of(c);
}

std::vector<int> up_to(int longest) {
  std::vector<int> lengths(static_cast<size_t>(longest));
  std::iota(lengths.begin(), lengths.end(), 1);
  return lengths;
}

std::vector<AttentionCase> attention_cases() {
  enum Runs { kOnce, kTwice };
  std::vector<AttentionCase> all;
  const auto add = [&](const std::vector<DType>& dtypes, const char* lengths,
                       const std::vector<AttentionShape>& shapes, const std::vector<float>& rates,
                       Runs runs = kOnce) {
    for (const DType dtype : dtypes) {
      for (const AttentionShape& shape : shapes) {
        for (const float rate : rates)
          all.push_back({test_device(), dtype, lengths, shape, rate, runs == kTwice});
      }
    }
  };
  const std::vector<DType> every = test_dtypes();
  // The emulated device takes its time.
  const bool cuda = test_device() == Device::kCuda;
  const std::vector<DType> most = cuda ? std::vector<DType>{DType::kF32} : every;
  const std::vector<float> rates = cuda ? std::vector<float>{0.3F} : std::vector<float>{0.0F, 0.3F};
  for (const int64_t d_head : {1, 5, 16, 32, 37, 64})
    add(most, "across", {{{5, 0, 1, 13, 3, 31}, {7, 4, 1, 0, 17, 29}, 3, d_head, false}}, rates);
  for (const int64_t d_head : {1, 7, 32, 64, 80})
    add(most, "self", {{{1, 2, 0, 17, 41, 16}, {}, 2, d_head, true}}, rates);
  add(every, "longer_than_a_tile", {{{131, 64, 65}, {}, 1, 32, true}, {{131, 64, 65}, {}, 1, 32, false}},
      {0.3F});
  add(every, "long_keys", {{{67, 3}, {2, 193}, 1, 8, false}, {{0, 5}, {3, 37}, 1, 130, false}}, {0.0F});
  add(every, "one_of_none", {{{1, 3, 0, 33}, {}, 2, 32, true}}, {0.0F}, kTwice);
  add(most, "several_pieces", {{{5, 70, 1, 33, 0, 12}, {}, 3, 32, true}}, {0.3F}, kTwice);
  add(every, "one_of_none", {{{2, 0, 67}, {}, 1, 48, true}}, {0.3F}, kTwice);
  add(every, "some_without_keys", {{{7, 2, 41}, {40, 0, 5}, 3, 5, false}}, {0.3F}, kTwice);

  // On CUDA these are the kernels on tensor cores.
  const std::vector<DType> bf16 = {DType::kBF16};
  add(bf16, "not_aligned", {{{5, 20}, {}, 1, 64, true, 3}}, {0.3F});
  add(bf16, "every_short_length", {{up_to(70), {}, 1, 32, true}}, {0.0F});
  add(bf16, "every_short_length", {{up_to(70), {}, 1, 32, false}}, {0.3F});
  add(bf16, "mixed",
      {{{1, 40, 16, 3, 17, 70, 0, 9, 64, 0, 100}, {30, 2, 17, 64, 90, 6, 12, 0, 33, 80, 0}, 2, 32, false}},
      {0.3F});
  for (const int64_t d_head : {32, 64, 128}) {
    const bool middle = d_head == 64;
    add(bf16, "wide", {{{9, 28, 50}, {}, 1, d_head, true, 8}}, {middle ? 0.0F : 0.3F});
    add(bf16, "wide", {{{14, 30, 65}, {16, 25, 70}, 1, d_head, false}}, {middle ? 0.3F : 0.0F});
  }
  // Heads of short sentences share a block: a number of heads that fills the blocks, and one that does not.
  add(bf16, "short", {{{16, 32, 5, 0, 40}, {}, 4, 32, true}}, {0.3F});
  add(bf16, "short", {{{16, 32, 5, 0, 40}, {}, 5, 32, true}}, {0.3F}, kTwice);
  add(bf16, "long", {{{70, 200}, {}, 1, 64, true}}, {0.3F}, kTwice);
  add(bf16, "long", {{{10, 150}, {200, 129}, 1, 32, false}}, {0.3F});
  add(bf16, "long", {{{65}, {130}, 1, 128, false}}, {0.0F}, kTwice);
  add(bf16, "empty", {{{0, 0}, {}, 1, 32, true}}, {0.0F});
  add(bf16, "no", {{{}, {}, 1, 32, true}}, {0.0F});
  return all;
}

class Attention : public ::testing::TestWithParam<AttentionCase> {};
VENTRIS_FOR_CASES(Attention, attention_cases());

TEST_P(Attention, ForwardAndBackwardMatchTheReferenceAndRepeatTheirBits) {
  const auto& [device, dtype, lengths, shape, rate, again] = GetParam();
  AttentionOperands first(shape, dtype, rate);
  first.run();
  first.expect_matches(first.reference());
  if (!again) return;
  AttentionOperands second(shape, dtype, rate);
  Arena memory(device, size_t{1} << 16);
  second.run(second.list_work(memory), other_context());
  second.expect_same_bits_as(first);
}

/// Before dropout, for alignments and pictures; log_sum_exp is saved or not.
class AttentionProbabilities : public ::testing::TestWithParam<AttentionCase> {};

std::vector<AttentionCase> probability_cases() {
  std::vector<AttentionCase> all;
  for (const DType dtype : test_dtypes()) {
    all.push_back({test_device(), dtype, "self", {{3, 67}, {}, 2, 32, true}, 0.0F, false});
    all.push_back({test_device(), dtype, "across", {{5, 0, 31}, {70, 1, 0}, 3, 16, false}, 0.5F, false});
  }
  return all;
}
VENTRIS_FOR_CASES(AttentionProbabilities, probability_cases());

TEST_P(AttentionProbabilities, MatchTheReference) {
  const auto& [device, dtype, lengths, shape, rate, again] = GetParam();
  constexpr int64_t kMaxKeys = 75;
  for (const bool saved : {true, false}) {
    AttentionOperands operands(shape, dtype, rate);
    Buffer before(shape.query_rows(), shape.heads * kMaxKeys, master_dtype(dtype));
    const AttentionReference expected = operands.reference(kMaxKeys);
    for (int64_t i = 0; i < expected.query_offsets.back() * before.view().cols; ++i) before.set(i, 5.0);
    const MatrixOperand probabilities(before);
    operands.run_forward({}, probabilities.view(), saved);
    operands.expect_out(expected);
    expect_close("probabilities", probabilities, expected.probabilities, master_dtype(dtype));
  }
}

/// Whose exponentials would overflow.
TEST(AttentionOfLargeScores, MatchesTheReference) {
  for (const DType dtype : test_master_dtypes()) {
    AttentionOperands operands({{6}, {40}, 1, 16, false, 0, 60.0}, dtype, 0.0F);
    operands.run();
    operands.expect_out(operands.reference());
  }
}

/// Queries of hypotheses with rows of a cache, among them one without keys.
class AttentionDecode : public OperationTest {};
VENTRIS_FOR_CASES(AttentionDecode, cases(test_dtypes(), {{3, 5}, {3, 21, 3}, {3, 64}}));

TEST_P(AttentionDecode, MatchesTheReference) {
  const auto& [device, dtype, size, rate] = GetParam();
  constexpr int kHeads = 2;
  constexpr int64_t kCacheRows = 50, kMaxKeys = 44;
  constexpr float kScale = 0.3F;
  const int64_t d_head = size.cols;
  const Buffer query = Buffer::random(size.rows, kHeads * d_head, dtype, 1);
  const Buffer key = Buffer::random(kCacheRows, kHeads * d_head, dtype, 2);
  const Buffer value = Buffer::random(kCacheRows, kHeads * d_head, dtype, 3);
  std::vector<int32_t> rows;
  for (int32_t i = 0; i < 41; ++i) rows.push_back(i * 7 % static_cast<int32_t>(kCacheRows));
  const std::vector<int32_t> begin = {0, 40, 40, 41};
  const MatrixOperand device_query(query, size.gap), device_key(key, size.gap), device_value(value, size.gap);
  const MatrixOperand out(size.rows, kHeads * d_head, dtype, size.gap);
  const MatrixOperand probabilities(size.rows, kMaxKeys, master_dtype(dtype), size.gap);
  const ArrayOperand<int32_t> device_rows(rows), device_begin(begin);
  attention_decode(test_context(), {.query = device_query.view(),
                                    .key = device_key.view(),
                                    .value = device_value.view(),
                                    .key_rows = device_rows.data(),
                                    .key_begin = device_begin.data(),
                                    .heads = kHeads,
                                    .scale = kScale,
                                    .out = out.view(),
                                    .probabilities = probabilities.view()});
  std::vector<double> expected(static_cast<size_t>(query.size()));
  std::vector<double> mean(static_cast<size_t>(size.rows * kMaxKeys));  // over heads
  for (int64_t r = 0; r < size.rows; ++r) {
    const auto first = static_cast<size_t>(begin[static_cast<size_t>(r)]);
    const size_t keys = static_cast<size_t>(begin[static_cast<size_t>(r) + 1]) - first;
    for (int64_t h = 0; h < kHeads; ++h) {
      std::vector<double> p;
      for (size_t j = 0; j < keys; ++j) {
        double score = 0.0;
        for (int64_t c = h * d_head; c < (h + 1) * d_head; ++c)
          score += query.get(r, c) * key.get(rows[first + j], c);
        p.push_back(std::exp(static_cast<double>(kScale) * score));
      }
      const double sum = std::accumulate(p.begin(), p.end(), 0.0);
      for (size_t j = 0; j < keys; ++j) {
        mean[static_cast<size_t>(r * kMaxKeys) + j] += p[j] / sum / kHeads;
        for (int64_t c = h * d_head; c < (h + 1) * d_head; ++c)
          expected[static_cast<size_t>(r * kHeads * d_head + c)] +=
              p[j] / sum * value.get(rows[first + j], c);
      }
    }
  }
  expect_close("out", out, expected, dtype);
  expect_close("probabilities", probabilities, mean, master_dtype(dtype));
}

}  // namespace
}  // namespace ventris::testing
