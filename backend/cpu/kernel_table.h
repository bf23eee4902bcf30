// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/ops/ops.h"

namespace ventris {

/// The operations on the CPU, compiled for one instruction set; arguments are checked. References, so that a
/// missing kernel does not compile.
struct CpuKernels {
  void (&adam)(Context&, const AdamArgs&);
  void (&add)(Context&, const AddArgs&);
  void (&apply_dropout)(Context&, const ApplyDropoutArgs&);
  void (&attention_forward)(Context&, const AttentionForwardArgs&);
  void (&attention_backward)(Context&, const AttentionBackwardArgs&);
  void (&attention_decode)(Context&, const AttentionDecodeArgs&);
  void (&bias_relu_backward)(Context&, const BiasReluBackwardArgs&);
  void (&bias_backward)(Context&, const BiasBackwardArgs&);
  void (&bit_digest)(Context&, const BitDigestArgs&);
  void (&cast)(Context&, const CastArgs&);
  void (&fill_zero)(Context&, Tensor);
  void (&chained_gemm)(Context&, const GemmArgs&);
  void (&cross_entropy)(Context&, const CrossEntropyArgs&);
  void (&loss_sum)(Context&, const LossSumArgs&);
  void (&embedding_forward)(Context&, const EmbeddingForwardArgs&);
  void (&embedding_backward)(Context&, const EmbeddingBackwardArgs&);
  void (&squares_of_chunks)(Context&, const SquaresOfChunksArgs&);
  void (&layer_norm_forward)(Context&, const LayerNormForwardArgs&);
  void (&layer_norm_backward)(Context&, const LayerNormBackwardArgs&);
  void (&log_probability_sum)(Context&, const LogProbabilitySumArgs&);
  void (&moving_average)(Context&, const MovingAverageArgs&);
  void (&exchange)(Context&, const ExchangeArgs&);
  void (&find_not_finite)(const FindNotFiniteArgs&);
  size_t (&int8_packed_bytes)(int64_t rows, int64_t cols);
  void (&int8_pack)(Context&, const PackArgs&);
  void (&int8_gemm)(Context&, const PackedGemmArgs&);
  size_t (&packed_bytes)(int64_t rows, int64_t cols, Packing);
  void (&pack)(Context&, const PackArgs&);
  void (&packed_gemm)(Context&, const PackedGemmArgs&);
  void (&repetition_penalty)(Context&, const RepetitionPenaltyArgs&);
  void (&swish_forward)(Context&, const SwishForwardArgs&);
  void (&swish_backward)(Context&, const SwishBackwardArgs&);
  void (&log_softmax_top_k)(Context&, const LogSoftmaxTopKArgs&);
  void (&log_probability)(Context&, const LogProbabilityArgs&);
  void (&plan_update)(const PlanUpdateArgs&);
  void (&weight_decay)(Context&, const WeightDecayArgs&);
};

/// Those of instruction_set() (backend/device/instruction_set.h).
const CpuKernels& cpu_kernels();

}  // namespace ventris
