#include <gtest/gtest.h>

#include <cmath>

#include "backend/attention.h"
#include "backend/attention_cuda.h"
#include "tests/emulation/device_buffer.h"

namespace ventris::testing {
namespace {

struct Case {
  std::vector<int32_t> query_offsets;
  std::vector<int32_t> key_offsets;
  int heads;
  int64_t d_head;
  bool causal;
  float rate;
};
/// Sentences of 0, 1 and more words than a tile; keys without queries and queries without keys; padding rows.
const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {{0, 1, 4, 4, 37}, {0, 1, 4, 4, 37}, 2, 32, true, 0.0F},
      {{0, 2, 2, 69}, {0, 2, 2, 69}, 1, 48, true, 0.3F},
      {{0, 7, 9, 50}, {0, 40, 40, 45}, 3, 5, false, 0.3F},
      {{0, 0, 5}, {0, 3, 40}, 1, 130, false, 0.0F},
  };
  return all;
}
constexpr int64_t kPadding = 3;

DropoutKey key_of(float rate) {
  return {.rate = rate, .seed = 0x123456789ABCULL, .step = 3, .place = 0x200, .row_base = 7};
}

TEST(CudaAttention, MatchesCpuAndRepeatsItsBits) {
  for (const DType dtype : kDeviceDTypes) {
    for (const Case& c : cases()) {
      const int64_t query_rows = c.query_offsets.back() + kPadding;
      const int64_t key_rows = c.key_offsets.back() + kPadding;
      const int64_t cols = c.heads * c.d_head;
      const int sentences = static_cast<int>(c.query_offsets.size()) - 1;
      const Buffer query = Buffer::random(query_rows, cols, dtype, 1),
                   key = Buffer::random(key_rows, cols, dtype, 2);
      const Buffer value = Buffer::random(key_rows, cols, dtype, 3),
                   d_out = Buffer::random(query_rows, cols, dtype, 4);
      Buffer out(query_rows, cols, dtype), lse(c.heads, query_rows, DType::kF32);
      constexpr int64_t kMaxKeys = 75;
      Buffer probabilities(query_rows, c.heads * kMaxKeys, DType::kF32);
      AttentionForwardArgs forward{.query = query.view(),
                                   .key = key.view(),
                                   .value = value.view(),
                                   .query_offsets = c.query_offsets.data(),
                                   .key_offsets = c.key_offsets.data(),
                                   .sentences = sentences,
                                   .heads = c.heads,
                                   .causal = c.causal,
                                   .scale = 1.0F / std::sqrt(static_cast<float>(c.d_head)),
                                   .dropout = key_of(c.rate),
                                   .out = out.view(),
                                   .log_sum_exp = lse.view(),
                                   .probabilities = probabilities.view()};
      attention_forward(cuda_context(), forward);
      Buffer d_query(query_rows, cols, dtype), d_key(key_rows, cols, dtype), d_value(key_rows, cols, dtype);
      AttentionBackwardArgs backward{.query = query.view(),
                                     .key = key.view(),
                                     .value = value.view(),
                                     .out = out.view(),
                                     .log_sum_exp = lse.view(),
                                     .d_out = d_out.view(),
                                     .query_offsets = c.query_offsets.data(),
                                     .key_offsets = c.key_offsets.data(),
                                     .sentences = sentences,
                                     .heads = c.heads,
                                     .causal = c.causal,
                                     .scale = forward.scale,
                                     .dropout = forward.dropout,
                                     .d_query = d_query.view(),
                                     .d_key = d_key.view(),
                                     .d_value = d_value.view()};
      attention_backward(cuda_context(), backward);

      const DeviceMatrix query_(query, 8), key_(key), value_(value, 3), d_out_(d_out);
      const DeviceArray<int32_t> query_offsets_(c.query_offsets), key_offsets_(c.key_offsets);
      const Buffer zero_probabilities(query_rows, c.heads * kMaxKeys, DType::kF32);
      struct Results {
        DeviceMatrix out, lse, probabilities, d_query, d_key, d_value;
      };
      Results first{{query_rows, cols, dtype},        DeviceMatrix(Buffer(c.heads, query_rows, DType::kF32)),
                    DeviceMatrix(zero_probabilities), {query_rows, cols, dtype},
                    {key_rows, cols, dtype},          {key_rows, cols, dtype, 2}};
      Results second{{query_rows, cols, dtype},        DeviceMatrix(Buffer(c.heads, query_rows, DType::kF32)),
                     DeviceMatrix(zero_probabilities), {query_rows, cols, dtype},
                     {key_rows, cols, dtype},          {key_rows, cols, dtype, 2}};
      for (const Results* r : {&first, &second}) {
        forward.query = backward.query = query_.view(), forward.key = backward.key = key_.view();
        forward.value = backward.value = value_.view(), backward.d_out = d_out_.view();
        forward.query_offsets = backward.query_offsets = query_offsets_.data();
        forward.key_offsets = backward.key_offsets = key_offsets_.data();
        forward.out = r->out.view(), forward.log_sum_exp = r->lse.view();
        forward.probabilities = r->probabilities.view();
        backward.out = r->out.view(), backward.log_sum_exp = r->lse.view();
        backward.d_query = r->d_query.view(), backward.d_key = r->d_key.view(),
        backward.d_value = r->d_value.view();
        attention_forward_cuda(cuda_context(), forward);
        attention_backward_cuda(cuda_context(), backward);
      }
      expect_matches("out", first.out, out, dtype);
      expect_matches("log_sum_exp", first.lse, lse, DType::kF32);
      expect_matches("probabilities", first.probabilities, probabilities, DType::kF32);
      expect_matches("d_query", first.d_query, d_query, dtype);
      expect_matches("d_key", first.d_key, d_key, dtype);
      expect_matches("d_value", first.d_value, d_value, dtype);
      expect_same("out", first.out, second.out);
      expect_same("d_query", first.d_query, second.d_query);
      expect_same("d_key", first.d_key, second.d_key);
      expect_same("d_value", first.d_value, second.d_value);
    }
  }
}

TEST(CudaAttentionDecode, MatchesCpu) {
  for (const DType dtype : kDeviceDTypes) {
    for (const int64_t d_head : {5, 64}) {
      const Buffer query = Buffer::random(3, 2 * d_head, dtype, 1);
      const Buffer key = Buffer::random(50, 2 * d_head, dtype, 2),
                   value = Buffer::random(50, 2 * d_head, dtype, 3);
      std::vector<int32_t> rows;
      for (int i = 0; i < 41; ++i) rows.push_back(i * 7 % 50);
      const std::vector<int32_t> begin = {0, 40, 40, 41};
      Buffer out(3, 2 * d_head, dtype), probabilities(3, 44, DType::kF32);
      AttentionDecodeArgs args{.query = query.view(),
                               .key = key.view(),
                               .value = value.view(),
                               .key_rows = rows.data(),
                               .key_begin = begin.data(),
                               .heads = 2,
                               .scale = 0.3F,
                               .out = out.view(),
                               .probabilities = probabilities.view()};
      attention_decode(cuda_context(), args);
      const DeviceMatrix query_(query), key_(key), value_(value), out_(3, 2 * d_head, dtype),
          p_(3, 44, DType::kF32);
      const DeviceArray<int32_t> rows_(rows), begin_(begin);
      args.query = query_.view(), args.key = key_.view(), args.value = value_.view();
      args.key_rows = rows_.data(), args.key_begin = begin_.data(), args.out = out_.view(),
      args.probabilities = p_.view();
      attention_decode_cuda(cuda_context(), args);
      expect_matches("out", out_, out, dtype);
      expect_matches("probabilities", p_, probabilities, DType::kF32);
    }
  }
}

}  // namespace
}  // namespace ventris::testing
