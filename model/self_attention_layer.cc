// SPDX-License-Identifier: Apache-2.0
#include "model/self_attention_layer.h"

#include "backend/ops/attention.h"

namespace ventris {

SelfAttentionLayer::Saved SelfAttentionLayer::plan(Arena& arena, const TransformerConfig& config, DType dtype,
                                                   int64_t capacity) {
  Saved saved;
  saved.query_key_value = arena.allocate(capacity, 3 * config.d_model, dtype);
  saved.attended = arena.allocate(capacity, config.d_model, dtype);
  saved.log_sum_exp = arena.allocate(config.heads, capacity, master_dtype(dtype));
  saved.branch = arena.allocate(capacity, config.d_model, dtype);
  saved.norm = ResidualNorm::plan(arena, config, dtype, capacity);
  return saved;
}

void SelfAttentionLayer::forward(Pass& pass, ResidualStream& stream, Saved& saved) const {
  if (pass.config.pre_norm) norm_.forward(pass, stream, saved.norm);
  const int64_t rows = stream.input.rows;
  const int64_t d = pass.config.d_model;
  const PackedRows packed = pass.packed(stack_);
  const Tensor qkv = saved.query_key_value.row_range(0, rows);
  const Tensor attended = saved.attended.row_range(0, rows);
  saved.input = stream.input;
  saved.dropout = pass.dropout_key(stack_, layer_, DropoutSite::kSelfAttentionWeights);
  projection_.forward(pass, stream.input, qkv);
  if (pass.search != nullptr && stack_ == Stack::kDecoder) {
    attention_decode(pass.context, {.query = qkv.col_range(0, d),
                                    .key = qkv.col_range(d, d),
                                    .value = qkv.col_range(2 * d, d),
                                    .key_rows = pass.search->self.rows.data(),
                                    .key_begin = pass.search->self.begin.data(),
                                    .heads = pass.config.heads,
                                    .scale = attention_scale(pass.config),
                                    .out = attended});
  } else {
    attention_forward(
        pass.context,
        {.query = qkv.col_range(0, d),
         .key = qkv.col_range(d, d),
         .value = qkv.col_range(2 * d, d),
         .query_offsets = packed.offsets,
         .key_offsets = packed.offsets,
         .sentences = pass.batch.sentences,
         .heads = pass.config.heads,
         .causal = stack_ == Stack::kDecoder,
         .scale = attention_scale(pass.config),
         .dropout = saved.dropout,
         .work = pass.self_attention_work(stack_),
         .out = attended,
         .log_sum_exp = first_columns(saved.log_sum_exp, rows),
         .probabilities = pass.attention_weights(
             stack_ == Stack::kEncoder ? AttentionKind::kEncoderSelf : AttentionKind::kDecoderSelf, layer_)});
  }
  stream.branch = saved.branch.row_range(0, rows);
  output_.forward(pass, attended, stream.branch);
  stream.dropout = pass.dropout_key(stack_, layer_, DropoutSite::kSelfAttentionOutput);
  stream.bias = output_.bias();
  if (!pass.config.pre_norm) norm_.forward(pass, stream, saved.norm);
}

ResidualStream SelfAttentionLayer::stream_before(const Pass& pass, const Saved& saved) const {
  if (!pass.config.pre_norm) return {.residual = saved.input, .input = saved.input};
  const ResidualNorm::Saved& norm = saved.norm;  // its sum is there already
  return {.residual = norm.sum, .input = norm.sum, .dropout = norm.dropout, .bias = norm.bias};
}

/// With A = Attention(Q, K, V), branch = A W_o + b_o, [Q K V] = x W + b:
///   dW_o += A^T d_branch;  dA = d_branch W_o^T;  [dQ dK dV] = Attention'(dA)
///   dW += x^T [dQ dK dV];  db_q, db_v += column sums;  d_x = [dQ dK dV] W^T
/// (db_o is computed by the norm that follows the branch).
void SelfAttentionLayer::backward(Pass& pass, GradientStream& gradients, const Saved& saved) const {
  const bool pre_norm = pass.config.pre_norm;
  if (!pre_norm) norm_.backward(pass, gradients, saved.norm);
  const int64_t rows = saved.input.rows;
  const int64_t d = pass.config.d_model;
  const PackedRows packed = pass.packed(stack_);
  const Tensor qkv = saved.query_key_value.row_range(0, rows);
  const Tensor attended = saved.attended.row_range(0, rows);
  const Tensor d_attended = gradients.input;
  const Tensor d_qkv = gradients.scratch(3 * d);
  output_.backward_weight(pass, attended, gradients.branch);
  output_.backward_input(pass, gradients.branch, d_attended, /*accumulate=*/false);
  attention_backward(pass.context, {.query = qkv.col_range(0, d),
                                    .key = qkv.col_range(d, d),
                                    .value = qkv.col_range(2 * d, d),
                                    .out = attended,
                                    .log_sum_exp = first_columns(saved.log_sum_exp, rows),
                                    .d_out = d_attended,
                                    .query_offsets = packed.offsets,
                                    .key_offsets = packed.offsets,
                                    .sentences = pass.batch.sentences,
                                    .heads = pass.config.heads,
                                    .causal = stack_ == Stack::kDecoder,
                                    .scale = attention_scale(pass.config),
                                    .dropout = saved.dropout,
                                    .work = pass.self_attention_work(stack_),
                                    .d_query = d_qkv.col_range(0, d),
                                    .d_key = d_qkv.col_range(d, d),
                                    .d_value = d_qkv.col_range(2 * d, d)});
  projection_.backward_parameters(pass, saved.input, d_qkv,
                                  {.first = 0, .count = d, .period = 2 * d});  // queries, values
  projection_.backward_input(pass, d_qkv, gradients.input_gradient(pre_norm), /*accumulate=*/!pre_norm);
  if (pre_norm) norm_.backward(pass, gradients, saved.norm);
}

}  // namespace ventris
