// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/device/tensor.h"
#include "model/pass.h"

namespace ventris {

/// The learned positions of that name, or `sinusoids` if the model has none. Masters: the sum with the
/// embedding is in that dtype.
ConstTensor positions_of(const ParameterStore& store, const char* name, Tensor sinusoids);

/// Fills device memory with the sinusoids of the model: [max_positions, d_model] master.
void fill_sinusoids(Context& context, const TransformerConfig& config, Tensor sinusoids);

/// out = dropout(sqrt(d_model) * table[id] + positions[position]) for one stack (sections 3.4 and 3.5 of the
/// paper); with config.zero_start the decoder has zeros in place of its first token.
class EmbeddingLayer {
 public:
  /// `positions`: [max_positions, d_model] master, sinusoids or learned; `learned` names the learned ones, or
  /// is -1.
  EmbeddingLayer(Stack stack, ParameterId table, ParameterId learned, ConstTensor positions)
      : stack_(stack), table_(table), learned_(learned), positions_(positions) {}

  /// out: [rows, d_model] T.
  void forward(Pass& pass, Tensor out) const;
  void backward(Pass& pass, ConstTensor d_out) const;

 private:
  bool zero_start(const Pass& pass) const { return stack_ == Stack::kDecoder && pass.config.zero_start; }

  Stack stack_;
  ParameterId table_;
  ParameterId learned_;
  ConstTensor positions_;
};

}  // namespace ventris
