// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/linear.h"
#include "model/residual_norm.h"

namespace ventris {

/// The decoder's attention to the encoder output, with its residual and norm (section 3.2.3 of the paper):
///   Q = input W_q + b_q;  branch = Attention(Q, K, V) W_o + b_o
/// K and V are this layer's columns of the decoder's one projection of the encoder output.
class CrossAttentionLayer {
 public:
  struct Saved {
    Tensor query;        // [capacity, d_model] T
    Tensor attended;     // [capacity, d_model] T: adjacent heads
    Tensor log_sum_exp;  // [heads, capacity] master
    Tensor branch;       // [capacity, d_model] T, then the sum of the next norm
    ResidualNorm::Saved norm;
    ConstTensor input = {};      // [rows, d_model] T
    ConstTensor key_value = {};  // [source rows, 2 * d_model] T
    DropoutKey dropout = {};     // of the attention weights
  };

  CrossAttentionLayer(int layer, const CrossAttentionIds& ids)
      : layer_(layer), query_(ids.query), output_(ids.output), norm_(ids.norm) {}

  static Saved plan(Arena& arena, const TransformerConfig& config, DType dtype, int64_t capacity);
  /// key_value: [source rows, 2 * d_model] T, keys then values.
  void forward(Pass& pass, ResidualStream& stream, ConstTensor key_value, Saved& saved) const;
  /// Overwrites d_key_value, [source rows, 2 * d_model] T.
  void backward(Pass& pass, GradientStream& gradients, Tensor d_key_value, const Saved& saved) const;

 private:
  int layer_;
  Linear query_;
  Linear output_;
  ResidualNorm norm_;
};

}  // namespace ventris
