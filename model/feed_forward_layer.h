// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/linear.h"
#include "model/residual_norm.h"

namespace ventris {

/// The position-wise feed-forward sublayer with its residual and norm (section 3.3 of the paper):
///   branch = dropout(f(input W1 + b1)) W2 + b2, with f = config.activation
class FeedForwardLayer {
 public:
  struct Saved {
    Tensor hidden;  // [capacity, d_ff] T: dropout(f(input W1 + b1))
    Tensor inner;   // [capacity, d_ff] T: input W1 + b1, without which ReLU can do
    Tensor branch;  // [capacity, d_model] T, then the sum of the next norm
    ResidualNorm::Saved norm;
    ConstTensor input = {};  // [rows, d_model] T
  };

  FeedForwardLayer(Stack stack, int layer, const FeedForwardIds& ids)
      : stack_(stack), layer_(layer), inner_(ids.inner), outer_(ids.outer), norm_(ids.norm) {}

  static Saved plan(Arena& arena, const TransformerConfig& config, DType dtype, int64_t capacity);
  /// Of a layer whose activations are those of `shared` but for what the next layer takes as its input.
  static Saved plan_output(Arena& arena, const TransformerConfig& config, DType dtype, int64_t capacity,
                           const Saved& shared);
  void forward(Pass& pass, ResidualStream& stream, Saved& saved) const;
  void backward(Pass& pass, GradientStream& gradients, const Saved& saved) const;

 private:
  DropoutKey hidden_dropout(const Pass& pass) const {
    return pass.dropout_key(stack_, layer_, DropoutSite::kFeedForwardHidden);
  }

  Stack stack_;
  int layer_;
  Linear inner_;
  Linear outer_;
  ResidualNorm norm_;
};

}  // namespace ventris
