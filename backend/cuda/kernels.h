// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/ops/kernel_arguments.h"

/// The CUDA kernels of the operations (backend/ops/ops.h): each enqueues its work on the stream of the
/// context and returns. Arguments are checked. Each is documented at its arguments, in the header of the
/// operation. Attention has its own header (attention_cuda.h).

namespace ventris {

/// Operations between the products of a layer, forward and backward.
void embedding_forward_cuda(Context& context, const EmbeddingForwardArgs& args);
void embedding_backward_cuda(Context& context, const EmbeddingBackwardArgs& args);
void layer_norm_forward_cuda(Context& context, const LayerNormForwardArgs& args);
void layer_norm_backward_cuda(Context& context, const LayerNormBackwardArgs& args);
void apply_dropout_cuda(Context& context, const ApplyDropoutArgs& args);
void bias_relu_backward_cuda(Context& context, const BiasReluBackwardArgs& args);
void bias_backward_cuda(Context& context, const BiasBackwardArgs& args);
void complete_column_sums_cuda(Context& context);
void swish_forward_cuda(Context& context, const SwishForwardArgs& args);
void swish_backward_cuda(Context& context, const SwishBackwardArgs& args);
void add_cuda(Context& context, const AddArgs& args);

/// Requires checked arguments (gemm.cc) and m, n > 0.
void gemm_cuda(Context& context, const GemmArgs& args);

/// The loss of training.
void cross_entropy_cuda(Context& context, const CrossEntropyArgs& args);
void loss_sum_cuda(Context& context, const LossSumArgs& args);

/// Scores of tokens in a search.
void log_softmax_top_k_cuda(Context& context, const LogSoftmaxTopKArgs& args);
void log_probability_cuda(Context& context, const LogProbabilityArgs& args);
void log_probability_sum_cuda(Context& context, const LogProbabilitySumArgs& args);
void repetition_penalty_cuda(Context& context, const RepetitionPenaltyArgs& args);

/// The update: norm of the gradients, plan, limits, weight decay, Adam, moving average.
void squares_of_chunks_cuda(Context& context, const SquaresOfChunksArgs& args);
void sum_of_chunks_cuda(Context& context, const SumOfChunksArgs& args);
void plan_update_cuda(Context& context, const PlanUpdateArgs& args);
void weight_decay_cuda(Context& context, const WeightDecayArgs& args);
void adam_cuda(Context& context, const AdamArgs& args);
void moving_average_cuda(Context& context, const MovingAverageArgs& args);
void exchange_cuda(Context& context, const ExchangeArgs& args);

/// Copies, conversions and digests of tensors.
void bit_digest_cuda(Context& context, const BitDigestArgs& args);
void cast_cuda(Context& context, const CastArgs& args);
void fill_zero_cuda(Context& context, Tensor tensor);
void find_not_finite_cuda(Context& context, const FindNotFiniteArgs& args);

}  // namespace ventris
