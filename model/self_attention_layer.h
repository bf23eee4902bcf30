// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/linear.h"
#include "model/residual_norm.h"

namespace ventris {

/// The self-attention sublayer with its residual and norm (section 3.2 of the paper); causal in the decoder:
///   [Q K V] = input W + b;  branch = Attention(Q, K, V) W_o + b_o
class SelfAttentionLayer {
 public:
  struct Saved {
    Tensor query_key_value;  // [capacity, 3 * d_model] T
    Tensor attended;         // [capacity, d_model] T: adjacent heads
    Tensor log_sum_exp;      // [heads, capacity] master
    Tensor branch;           // [capacity, d_model] T, then the sum of the next norm
    ResidualNorm::Saved norm;
    ConstTensor input = {};   // [rows, d_model] T
    DropoutKey dropout = {};  // of the attention weights
  };

  SelfAttentionLayer(Stack stack, int layer, const SelfAttentionIds& ids)
      : stack_(stack),
        layer_(layer),
        projection_(ids.query_key_value),
        output_(ids.output),
        norm_(ids.norm) {}

  static Saved plan(Arena& arena, const TransformerConfig& config, DType dtype, int64_t capacity);
  void forward(Pass& pass, ResidualStream& stream, Saved& saved) const;
  /// The stream with which a second forward() gives what the last one gave; of the activations it takes the
  /// input alone. It overwrites no input of an earlier layer.
  ResidualStream stream_before(const Pass& pass, const Saved& saved) const;
  void backward(Pass& pass, GradientStream& gradients, const Saved& saved) const;

 private:
  Stack stack_;
  int layer_;
  Linear projection_;
  Linear output_;
  ResidualNorm norm_;
};

}  // namespace ventris
