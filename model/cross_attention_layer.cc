// SPDX-License-Identifier: Apache-2.0
#include "model/cross_attention_layer.h"

#include "backend/ops/attention.h"
#include "backend/ops/cast.h"

namespace ventris {

CrossAttentionLayer::Saved CrossAttentionLayer::plan(Arena& arena, const TransformerConfig& config,
                                                     DType dtype, int64_t capacity) {
  Saved saved;
  saved.query = arena.allocate(capacity, config.d_model, dtype);
  saved.attended = arena.allocate(capacity, config.d_model, dtype);
  saved.log_sum_exp = arena.allocate(config.heads, capacity, master_dtype(dtype));
  saved.branch = arena.allocate(capacity, config.d_model, dtype);
  saved.norm = ResidualNorm::plan(arena, config, dtype, capacity);
  return saved;
}

void CrossAttentionLayer::forward(Pass& pass, ResidualStream& stream, ConstTensor key_value,
                                  Saved& saved) const {
  if (pass.config.pre_norm) norm_.forward(pass, stream, saved.norm);
  const int64_t rows = stream.input.rows;
  const int64_t d = pass.config.d_model;
  const Tensor query = saved.query.row_range(0, rows);
  const Tensor attended = saved.attended.row_range(0, rows);
  saved.input = stream.input;
  saved.key_value = key_value;
  saved.dropout = pass.dropout_key(Stack::kDecoder, layer_, DropoutSite::kCrossAttentionWeights);
  query_.forward(pass, stream.input, query);
  if (pass.search != nullptr) {
    attention_decode(pass.context, {.query = query,
                                    .key = key_value.col_range(0, d),
                                    .value = key_value.col_range(d, d),
                                    .key_rows = pass.search->cross.rows.data(),
                                    .key_begin = pass.search->cross.begin.data(),
                                    .heads = pass.config.heads,
                                    .scale = attention_scale(pass.config),
                                    .out = attended});
  } else {
    attention_forward(pass.context, {.query = query,
                                     .key = key_value.col_range(0, d),
                                     .value = key_value.col_range(d, d),
                                     .query_offsets = pass.batch.target_offsets,
                                     .key_offsets = pass.batch.source_offsets,
                                     .sentences = pass.batch.sentences,
                                     .heads = pass.config.heads,
                                     .scale = attention_scale(pass.config),
                                     .dropout = saved.dropout,
                                     .work = pass.attention_work.cross,
                                     .out = attended,
                                     .log_sum_exp = first_columns(saved.log_sum_exp, rows),
                                     .probabilities = pass.attention_weights(AttentionKind::kCross, layer_)});
  }
  stream.branch = saved.branch.row_range(0, rows);
  output_.forward(pass, attended, stream.branch);
  stream.dropout = pass.dropout_key(Stack::kDecoder, layer_, DropoutSite::kCrossAttentionOutput);
  stream.bias = output_.bias();
  if (!pass.config.pre_norm) norm_.forward(pass, stream, saved.norm);
}

/// With A = Attention(Q, K, V), branch = A W_o + b_o, Q = x W_q + b_q:
///   dW_o += A^T d_branch;  dA = d_branch W_o^T;  dQ, dK, dV = Attention'(dA)
///   dW_q += x^T dQ;  db_q += column sums of dQ;  d_x = dQ W_q^T
/// (db_o is computed by the norm that follows the branch; dK and dV go to the projection of the encoder
/// output).
void CrossAttentionLayer::backward(Pass& pass, GradientStream& gradients, Tensor d_key_value,
                                   const Saved& saved) const {
  const bool pre_norm = pass.config.pre_norm;
  if (!pre_norm) norm_.backward(pass, gradients, saved.norm);
  const int64_t rows = saved.input.rows;
  const int64_t d = pass.config.d_model;
  const Tensor attended = saved.attended.row_range(0, rows);
  const Tensor d_attended = gradients.input;
  const Tensor d_query = gradients.scratch(d);
  output_.backward_weight(pass, attended, gradients.branch);
  output_.backward_input(pass, gradients.branch, d_attended, /*accumulate=*/false);
  attention_backward(pass.context, {.query = saved.query.row_range(0, rows),
                                    .key = saved.key_value.col_range(0, d),
                                    .value = saved.key_value.col_range(d, d),
                                    .out = attended,
                                    .log_sum_exp = first_columns(saved.log_sum_exp, rows),
                                    .d_out = d_attended,
                                    .query_offsets = pass.batch.target_offsets,
                                    .key_offsets = pass.batch.source_offsets,
                                    .sentences = pass.batch.sentences,
                                    .heads = pass.config.heads,
                                    .scale = attention_scale(pass.config),
                                    .dropout = saved.dropout,
                                    .work = pass.attention_work.cross,
                                    .d_query = d_query,
                                    .d_key = d_key_value.col_range(0, d),
                                    .d_value = d_key_value.col_range(d, d)});
  query_.backward_parameters(pass, saved.input, d_query);
  query_.backward_input(pass, d_query, gradients.input_gradient(pre_norm), /*accumulate=*/!pre_norm);
  if (pre_norm) norm_.backward(pass, gradients, saved.norm);
}

}  // namespace ventris
