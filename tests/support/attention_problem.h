// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "backend/attention.h"
#include "backend/context.h"
#include "tests/support/attention_reference.h"
#include "tests/support/device_buffer.h"

namespace ventris::testing {

/// Attention over random packed sentences; query, key and value are column blocks of one matrix where
/// `fused`.
struct AttentionProblem {
  AttentionProblem(const std::vector<int>& query_lengths, const std::vector<int>& key_lengths, int heads,
                   int d_head, DType dtype, bool causal, int padding = 3)
      : heads(heads),
        d_head(d_head),
        dtype(dtype),
        causal(causal),
        query_offsets(offsets_of(query_lengths)),
        key_offsets(offsets_of(key_lengths)),
        query_rows(query_offsets.back() + padding),
        key_rows(key_offsets.back() + padding),
        query_matrix(Buffer::random(query_rows, width(), dtype, 1)),
        key_value_matrix(Buffer::random(key_rows, 2 * width(), dtype, 2)),
        d_out(Buffer::random(query_rows, width(), dtype, 3)),
        out(query_rows, width(), dtype),
        log_sum_exp(heads, query_rows, master_dtype(dtype)),
        d_query(query_rows, width(), dtype),
        d_key_value(key_rows, 2 * width(), dtype) {}

  int64_t width() const { return int64_t{heads} * d_head; }
  int sentences() const { return static_cast<int>(query_offsets.size()) - 1; }
  float scale() const { return 1.0F / std::sqrt(static_cast<float>(d_head)); }
  ConstTensor key() const { return key_value_matrix.view().col_range(0, width()); }
  ConstTensor value() const { return key_value_matrix.view().col_range(width(), width()); }

  void forward(Context& context, Tensor probabilities = {}) {
    attention_forward(context, {.query = query_matrix.view(),
                                .key = key(),
                                .value = value(),
                                .query_offsets = query_offsets.data(),
                                .key_offsets = key_offsets.data(),
                                .sentences = sentences(),
                                .heads = heads,
                                .causal = causal,
                                .scale = scale(),
                                .dropout = dropout,
                                .work = {},
                                .out = out.view(),
                                .log_sum_exp = log_sum_exp.view(),
                                .probabilities = probabilities});
  }
  void backward(Context& context) {
    attention_backward(context, {.query = query_matrix.view(),
                                 .key = key(),
                                 .value = value(),
                                 .out = out.view(),
                                 .log_sum_exp = log_sum_exp.view(),
                                 .d_out = d_out.view(),
                                 .query_offsets = query_offsets.data(),
                                 .key_offsets = key_offsets.data(),
                                 .sentences = sentences(),
                                 .heads = heads,
                                 .causal = causal,
                                 .scale = scale(),
                                 .dropout = dropout,
                                 .work = {},
                                 .d_query = d_query.view(),
                                 .d_key = d_key_value.view().col_range(0, width()),
                                 .d_value = d_key_value.view().col_range(width(), width())});
  }

  int heads;
  int d_head;
  DType dtype;
  bool causal;
  std::vector<int32_t> query_offsets;
  std::vector<int32_t> key_offsets;
  int64_t query_rows;
  int64_t key_rows;
  Buffer query_matrix;
  Buffer key_value_matrix;  // keys, then values
  Buffer d_out;
  Buffer out;
  Buffer log_sum_exp;
  Buffer d_query;
  Buffer d_key_value;
  DropoutKey dropout;
};

inline const DropoutPosition kPosition = {.step = 7, .row_base = 1000};

inline DropoutKey some_dropout(float rate = 0.3F) {
  return {.rate = rate, .seed = 0x123456789ABCDEFULL, .place = 0x500, .position = &kPosition};
}

inline std::vector<double> values_of(const Buffer& buffer) {
  std::vector<double> values(static_cast<size_t>(buffer.size()));
  for (int64_t i = 0; i < buffer.size(); ++i) values[static_cast<size_t>(i)] = buffer.get(i);
  return values;
}

inline std::vector<double> rows_of(const Buffer& buffer, int64_t cols, int64_t begin, int64_t end) {
  const std::vector<double> values = values_of(buffer);
  return {values.begin() + begin * cols, values.begin() + end * cols};
}

}  // namespace ventris::testing
