// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The operations that have a kernel on each device: OP(name, struct of the arguments). From the list come
/// the table of the CPU kernels of an instruction set (backend/cpu/kernel_table.h) and the dispatch to the
/// kernels of a context's device (backend/ops/kernels.h). The kernels of an operation get checked arguments:
///
///     void NAME_cpu(Context& context, const ARGS& args)    in backend/cpu
///     void NAME_cuda(Context& context, const ARGS& args)   in backend/cuda; enqueues work and returns
///
/// Their sources do not include the list, so that a new line compiles none of them again; a kernel that is
/// missing or misspelt is a link error with its name.
// clang-format off
#define VENTRIS_OPS(OP) \
  OP(gemm, GemmArgs) \
  OP(embedding_forward, EmbeddingForwardArgs) \
  OP(embedding_backward, EmbeddingBackwardArgs) \
  OP(layer_norm_forward, LayerNormForwardArgs) \
  OP(layer_norm_backward, LayerNormBackwardArgs) \
  OP(attention_forward, AttentionForwardArgs) \
  OP(attention_backward, AttentionBackwardArgs) \
  OP(attention_decode, AttentionDecodeArgs) \
  OP(apply_dropout, ApplyDropoutArgs) \
  OP(bias_relu_backward, BiasReluBackwardArgs) \
  OP(bias_backward, BiasBackwardArgs) \
  OP(activation_forward, ActivationForwardArgs) \
  OP(activation_backward, ActivationBackwardArgs) \
  OP(add, AddArgs) \
  OP(cross_entropy, CrossEntropyArgs) \
  OP(loss_sum, LossSumArgs) \
  OP(log_softmax_top_k, LogSoftmaxTopKArgs) \
  OP(log_probability, LogProbabilityArgs) \
  OP(log_probability_sum, LogProbabilitySumArgs) \
  OP(repetition_penalty, RepetitionPenaltyArgs) \
  OP(squares_of_chunks, SquaresOfChunksArgs) \
  OP(sum_of_chunks, SumOfChunksArgs) \
  OP(plan_update, PlanUpdateArgs) \
  OP(weight_decay, WeightDecayArgs) \
  OP(adam, AdamArgs) \
  OP(moving_average, MovingAverageArgs) \
  OP(exchange, ExchangeArgs) \
  OP(find_not_finite, FindNotFiniteArgs) \
  OP(bit_digest, BitDigestArgs) \
  OP(cast, CastArgs) \
  OP(fill_zero, Tensor)
// clang-format on
