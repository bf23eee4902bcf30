// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward_layer.h"

#include "backend/ops/activation.h"
#include "backend/ops/apply_dropout.h"

namespace ventris {

FeedForwardLayer::Saved FeedForwardLayer::plan(Arena& arena, const TransformerConfig& config, DType dtype,
                                               int64_t capacity) {
  Saved saved;
  saved.hidden = arena.allocate(capacity, config.d_ff, dtype);
  if (config.activation != Activation::kRelu) saved.inner = arena.allocate(capacity, config.d_ff, dtype);
  saved.branch = arena.allocate(capacity, config.d_model, dtype);
  saved.norm = ResidualNorm::plan(arena, config, dtype, capacity);
  return saved;
}

FeedForwardLayer::Saved FeedForwardLayer::plan_output(Arena& arena, const TransformerConfig& config,
                                                      DType dtype, int64_t capacity, const Saved& shared) {
  Saved saved = shared;
  (config.pre_norm ? saved.branch : saved.norm.y) = arena.allocate(capacity, config.d_model, dtype);
  return saved;
}

void FeedForwardLayer::forward(Pass& pass, ResidualStream& stream, Saved& saved) const {
  if (pass.config.pre_norm) norm_.forward(pass, stream, saved.norm);
  const int64_t rows = stream.input.rows;
  const Tensor hidden = saved.hidden.row_range(0, rows);
  saved.input = stream.input;
  if (pass.config.activation != Activation::kRelu) {
    const Tensor inner = saved.inner.row_range(0, rows);
    inner_.forward(pass, stream.input, inner);
    activation_forward(pass.context, {.x = inner, .y = hidden, .activation = pass.config.activation});
  } else {
    inner_.forward(pass, stream.input, hidden, /*relu=*/true);
  }
  apply_dropout(pass.context, {.x = hidden, .dropout = hidden_dropout(pass)});
  stream.branch = saved.branch.row_range(0, rows);
  outer_.forward(pass, hidden, stream.branch);
  stream.dropout = pass.dropout_key(stack_, layer_, DropoutSite::kFeedForwardOutput);
  stream.bias = outer_.bias();
  if (!pass.config.pre_norm) norm_.forward(pass, stream, saved.norm);
}

/// With z = x W1 + b1, h = mask * f(z), branch = h W2 + b2:
///   dW2 += h^T d_branch;  d_z = mask * (d_branch W2^T) * f'(z);  dW1 += x^T d_z;  db1 += column sums of d_z;
///   d_x = d_z W1^T
/// (db2 is computed by the norm that follows the branch).
void FeedForwardLayer::backward(Pass& pass, GradientStream& gradients, const Saved& saved) const {
  const bool pre_norm = pass.config.pre_norm;
  if (!pre_norm) norm_.backward(pass, gradients, saved.norm);
  const Tensor hidden = saved.hidden.row_range(0, saved.input.rows);
  const Tensor d_hidden = gradients.scratch(hidden.cols);
  outer_.backward_weight(pass, hidden, gradients.branch);
  outer_.backward_input(pass, gradients.branch, d_hidden, /*accumulate=*/false);
  // Of ReLU, f' is 1 where h > 0, and besides only where the mask is 0.
  apply_dropout(pass.context, {.x = d_hidden, .dropout = hidden_dropout(pass)});
  if (pass.config.activation != Activation::kRelu) {
    activation_backward(pass.context, {.x = saved.inner.row_range(0, saved.input.rows),
                                       .d_y = d_hidden,
                                       .activation = pass.config.activation});
    inner_.backward_parameters(pass, saved.input, d_hidden);
  } else {
    inner_.backward_relu_bias(pass, hidden, d_hidden);
    inner_.backward_weight(pass, saved.input, d_hidden);
  }
  inner_.backward_input(pass, d_hidden, gradients.input_gradient(pre_norm), /*accumulate=*/!pre_norm);
  if (pre_norm) norm_.backward(pass, gradients, saved.norm);
}

}  // namespace ventris
