#include "model/feed_forward_layer.h"

namespace ventris {

FeedForwardLayer::Saved FeedForwardLayer::plan(Arena& arena, const TransformerConfig& config, DType dtype,
                                               int64_t capacity) {
  Saved saved;
  saved.hidden = arena.allocate(capacity, config.d_ff, dtype);
  saved.branch = arena.allocate(capacity, config.d_model, dtype);
  saved.norm = ResidualNorm::plan(arena, config, dtype, capacity);
  return saved;
}

void FeedForwardLayer::forward(Pass& pass, ResidualStream& stream, Saved& saved) const {
  if (pass.config.pre_norm) norm_.forward(pass, stream, saved.norm);
  const int64_t rows = stream.input.rows;
  const Tensor hidden = saved.hidden.row_range(0, rows);
  saved.input = stream.input;
  inner_.forward(pass, stream.input, hidden, /*relu=*/true);
  stream.branch = saved.branch.row_range(0, rows);
  outer_.forward(pass, hidden, stream.branch);
  stream.dropout = pass.dropout_key(stack_, layer_, DropoutSite::kFeedForwardOutput);
  stream.bias = outer_.bias();
  if (!pass.config.pre_norm) norm_.forward(pass, stream, saved.norm);
}

/// With h = ReLU(x W1 + b1), branch = h W2 + b2:
///   dW2 += h^T d_branch;  d_h = (d_branch W2^T) * (h > 0);  dW1 += x^T d_h;  db1 += column sums of d_h;  d_x
///   = d_h W1^T
/// (db2 comes out of the norm that follows the branch).
void FeedForwardLayer::backward(Pass& pass, GradientStream& gradients, const Saved& saved) const {
  const bool pre_norm = pass.config.pre_norm;
  if (!pre_norm) norm_.backward(pass, gradients, saved.norm);
  const Tensor hidden = saved.hidden.row_range(0, saved.input.rows);
  const Tensor d_hidden = gradients.scratch(hidden.cols);
  outer_.backward_weight(pass, hidden, gradients.branch);
  outer_.backward_input(pass, gradients.branch, d_hidden, /*accumulate=*/false);
  inner_.backward_relu_bias(pass, hidden, d_hidden);
  inner_.backward_weight(pass, saved.input, d_hidden);
  inner_.backward_input(pass, d_hidden, gradients.input_gradient(pre_norm), /*accumulate=*/!pre_norm);
  if (pre_norm) norm_.backward(pass, gradients, saved.norm);
}

}  // namespace ventris
