// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/ops/kernel_arguments.h"

/// The CPU kernels of the operations (backend/ops/ops.h), compiled once for each instruction set and reached
/// only through cpu_kernels() (backend/cpu/kernel_table.h). Arguments are checked. Each is documented at its
/// arguments, in the header of the operation. Attention, packing and the packed products have their own
/// headers (attention_cpu.h, pack_cpu.h, packed_gemm_cpu.h and their neighbours), as has the product that is
/// compiled once (gemm_cpu.h).

namespace ventris {

/// Operations between the products of a layer, forward and backward.
void embedding_forward_cpu(Context& context, const EmbeddingForwardArgs& args);
void embedding_backward_cpu(Context& context, const EmbeddingBackwardArgs& args);
void layer_norm_forward_cpu(Context& context, const LayerNormForwardArgs& args);
void layer_norm_backward_cpu(Context& context, const LayerNormBackwardArgs& args);
void apply_dropout_cpu(Context& context, const ApplyDropoutArgs& args);
void bias_relu_backward_cpu(Context& context, const BiasReluBackwardArgs& args);
void bias_backward_cpu(Context& context, const BiasBackwardArgs& args);
void swish_forward_cpu(Context& context, const SwishForwardArgs& args);
void swish_backward_cpu(Context& context, const SwishBackwardArgs& args);
void add_cpu(Context& context, const AddArgs& args);

/// gemm() of f32 or bf16 by packed_gemm() in f32: every element is one chain of fused multiply-adds in order
/// of k, from zero or, with `accumulate`, from c, rounded to the dtype of c at its end. So its bits depend
/// only on its row of op(a) and its column of op(b), not on the number of rows, columns or threads, nor on
/// the width of the processor's vectors.
void chained_gemm_cpu(Context& context, const GemmArgs& args);

/// The loss of training.
void cross_entropy_cpu(Context& context, const CrossEntropyArgs& args);
void loss_sum_cpu(Context& context, const LossSumArgs& args);

/// Scores of tokens in a search.
void log_softmax_top_k_cpu(Context& context, const LogSoftmaxTopKArgs& args);
void log_probability_cpu(Context& context, const LogProbabilityArgs& args);
void log_probability_sum_cpu(Context& context, const LogProbabilitySumArgs& args);
void repetition_penalty_cpu(Context& context, const RepetitionPenaltyArgs& args);

/// The update: norm of the gradients, plan, limits, weight decay, Adam, moving average.
void squares_of_chunks_cpu(Context& context, const SquaresOfChunksArgs& args);
void plan_update_cpu(const PlanUpdateArgs& args);
void weight_decay_cpu(Context& context, const WeightDecayArgs& args);
void adam_cpu(Context& context, const AdamArgs& args);
void moving_average_cpu(Context& context, const MovingAverageArgs& args);
void exchange_cpu(Context& context, const ExchangeArgs& args);

/// Copies, conversions and digests of tensors.
void bit_digest_cpu(Context& context, const BitDigestArgs& args);
void cast_cpu(Context& context, const CastArgs& args);
void fill_zero_cpu(Context& context, Tensor tensor);

/// Runs on one thread, as it is rarely needed.
void find_not_finite_cpu(const FindNotFiniteArgs& args);

}  // namespace ventris
