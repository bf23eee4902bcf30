// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/device/arena.h"
#include "backend/device/tensor.h"
#include "model/pass.h"
#include "model/transformer.h"
#include "model/transformer_parameters.h"

namespace ventris {

/// Output projection with the table E of ids.output and label-smoothed cross-entropy: logits = h E^T + b, b
/// only with config.output_bias. Processes a fixed number of rows at a time, forward and backward at once, so
/// that the memory of logits and their gradient is bounded.
class OutputLayer {
 public:
  struct Memory {
    Tensor logits;   // [rows of a chunk, padded_vocab] of the dtype that plan() was given
    Tensor loss;     // [1, capacity] master
    Tensor nll;      // [1, capacity] master
    double* totals;  // [2] sums of loss and nll over micro-batches
  };

  explicit OutputLayer(const TransformerIds& ids) : table_(ids.output), bias_(ids.output_bias) {}

  /// The dtype of logits and their gradient in training with activations of `dtype`: T, but f32 where the
  /// CPU multiplies bf16 in f32. Rounding them to bf16 would take time there, and save none.
  static DType logits_dtype(Device device, DType dtype);
  /// Rows of logits of `dtype` that a model of that capacity of target rows holds at a time.
  static int64_t chunk_rows(const TransformerConfig& config, Device device, DType dtype, int64_t capacity);
  static Memory plan(Arena& arena, const TransformerConfig& config, Device device, DType dtype,
                     int64_t capacity);

  /// hidden: [target rows, d_model] T. Adds the loss, weighted where batch.weights are given, to
  /// memory.totals. With d_hidden, [target rows, d_model] T, it is overwritten by the gradient of
  /// *batch.gradient_scale times the summed loss, and the gradients of table and bias are accumulated.
  void loss(Pass& pass, ConstTensor hidden, Tensor d_hidden, const Memory& memory) const;

  /// Writes log softmax(logits)[label] of each row of `hidden` to out[rows], on the device.
  void log_probabilities(Pass& pass, ConstTensor hidden, float* out, const Memory& memory) const;

  /// logits: [hidden.rows, padded_vocab] T or master. Columns after the vocabulary may remain as they were.
  void logits(Pass& pass, ConstTensor hidden, Tensor logits) const;

 private:
  static int64_t columns(const Pass& pass, DType dtype);
  void backward(Pass& pass, ConstTensor d_logits, ConstTensor hidden, Tensor d_hidden) const;

  ParameterId table_;
  ParameterId bias_;  // [padded_vocab], or -1
};

}  // namespace ventris
