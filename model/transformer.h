// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "backend/device/context.h"
#include "model/attention_weights.h"
#include "model/micro_batch.h"
#include "model/parameters.h"
#include "model/pass.h"
#include "model/transformer_config.h"
#include "model/transformer_parameters.h"

namespace ventris {

/// Phases of Transformer::forward_backward() for profiles (backend/device/profile.h).
inline constexpr const char* kEncoderForward = "encoder forward";
inline constexpr const char* kDecoderForward = "decoder forward";
inline constexpr const char* kOutputAndLoss = "output layer and loss";  // with its products of backward
inline constexpr const char* kDecoderBackward = "decoder backward";
inline constexpr const char* kEncoderBackward = "encoder backward";

/// Sums over the target tokens of a micro-batch.
struct LossSums {
  double loss = 0.0;  // label-smoothed cross-entropy
  double nll = 0.0;   // -log p(label)
};

/// The Transformer of "Attention Is All You Need": forward pass, loss and hand-written backward pass over
/// packed micro-batches. Owns the activations, sized once for a capacity; reads and accumulates into the
/// ParameterStore.
class Transformer {
 public:
  /// Requires: `store` is allocated after declare_transformer gave `ids`. Both must outlive the model. Throws
  /// Error(kUnavailable) with the bytes needed if memory does not suffice.
  Transformer(Context& context, const TransformerConfig& config, ParameterStore& store,
              const TransformerIds& ids, const MicroBatchCapacity& capacity, KeptActivations kept);
  ~Transformer();
  Transformer(const Transformer&) = delete;
  Transformer& operator=(const Transformer&) = delete;

  /// Adds batch.gradient_scale * d(sum of loss over target tokens) to the gradients, dropout on, and the loss
  /// to loss_sums(). `ready` and `loss_ready` may be empty. Reads nothing back from the device.
  void forward_backward(const MicroBatch& batch, uint64_t dropout_seed, const GradientsReady& ready,
                        const LossReady& loss_ready = {});

  /// Adds the loss without dropout to loss_sums(); no gradients.
  void evaluate(const MicroBatch& batch);

  /// The sums of forward_backward() and evaluate() since the caller cleared them: [1, 2] f64 on the device,
  /// loss and nll; initially zero.
  Tensor loss_sums();
  /// Reads them and clears them; waits for the device.
  LossSums take_loss_sums();

  /// Encoder output without dropout, [source_rows, d_model] T; valid until the next call. Reads the source
  /// fields only.
  ConstTensor encode(const MicroBatch& batch);

  /// log p(label) of every target row without dropout, written to out[target_rows] on the device.
  void log_probabilities(const MicroBatch& batch, float* out);

  /// Logits without dropout, [target_rows, padded_vocab] T, written to `logits`. For tests, scoring and small
  /// batches.
  void logits(const MicroBatch& batch, Tensor logits);

  /// Both stacks without dropout; fills the tensors of `weights`.
  void attention_weights(const MicroBatch& batch, const AttentionWeights& weights);

  const TransformerConfig& config() const;
  /// Bytes of activations.
  size_t activation_bytes() const;
  /// The bytes of activations of a model, by the code that allocates them.
  static size_t planned_bytes(const TransformerConfig& config, Device device, DType dtype,
                              const MicroBatchCapacity& capacity, KeptActivations kept);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ventris
