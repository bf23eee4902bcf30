// SPDX-License-Identifier: Apache-2.0
#include "model/residual_norm.h"

#include "backend/ops/layer_norm.h"

namespace ventris {

ResidualNorm::Saved ResidualNorm::plan(Arena& arena, const TransformerConfig& config, DType dtype,
                                       int64_t capacity) {
  Saved saved;
  saved.y = arena.allocate(capacity, config.d_model, dtype);
  saved.mean = arena.allocate(1, capacity, master_dtype(dtype));
  saved.rstd = arena.allocate(1, capacity, master_dtype(dtype));
  return saved;
}

void ResidualNorm::forward(Pass& pass, ResidualStream& stream, Saved& saved) const {
  const int64_t rows = stream.residual.rows;
  const Tensor y = saved.y.row_range(0, rows);
  layer_norm_forward(pass.context, {.x = stream.branch,
                                    .residual = stream.residual,
                                    .dropout = stream.branch ? stream.dropout : DropoutKey{},
                                    .gamma = pass.store.value(ids_.gamma),
                                    .beta = pass.store.value(ids_.beta),
                                    .epsilon = pass.config.layer_norm_epsilon,
                                    .sum = stream.branch,
                                    .mean = saved.mean.col_range(0, rows),
                                    .rstd = saved.rstd.col_range(0, rows),
                                    .y = y});
  saved.sum = stream.branch ? ConstTensor(stream.branch) : stream.residual;
  saved.dropout = stream.dropout;
  saved.bias = stream.bias;
  stream.input = y;
  stream.residual = pass.config.pre_norm ? saved.sum : stream.input;
  stream.branch = {};
  stream.dropout = {};
  stream.bias = -1;
}

void ResidualNorm::backward(Pass& pass, GradientStream& gradients, const Saved& saved, bool first) const {
  const int64_t rows = saved.sum.rows;
  const bool pre_norm = pass.config.pre_norm;
  const bool has_branch = saved.bias >= 0;
  layer_norm_backward(pass.context,
                      {.d_y = pre_norm ? gradients.input : gradients.residual,
                       .d_sum_in = pre_norm && !first ? ConstTensor(gradients.residual) : ConstTensor{},
                       .sum = saved.sum,
                       .mean = saved.mean.col_range(0, rows),
                       .rstd = saved.rstd.col_range(0, rows),
                       .gamma = pass.store.value(ids_.gamma),
                       .dropout = saved.dropout,
                       .d_residual = gradients.residual,
                       .d_x = has_branch ? gradients.branch : Tensor{},
                       .d_gamma = pass.store.gradient(ids_.gamma),
                       .d_beta = pass.store.gradient(ids_.beta),
                       .d_bias = has_branch ? pass.store.gradient(saved.bias) : Tensor{},
                       .sums_later = true});
}

}  // namespace ventris
