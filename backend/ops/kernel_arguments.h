// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Declares the arguments of kernels, so that a change to one operation recompiles only its own files. Each
/// is defined in the header of its operation.

namespace ventris {

class Context;
struct Tensor;
struct AdamArgs;
struct AddArgs;
struct ApplyDropoutArgs;
struct BiasBackwardArgs;
struct BiasReluBackwardArgs;
struct BitDigestArgs;
struct CastArgs;
struct CrossEntropyArgs;
struct EmbeddingBackwardArgs;
struct EmbeddingForwardArgs;
struct ExchangeArgs;
struct FindNotFiniteArgs;
struct GemmArgs;
struct LayerNormBackwardArgs;
struct LayerNormForwardArgs;
struct LogProbabilityArgs;
struct LogProbabilitySumArgs;
struct LogSoftmaxTopKArgs;
struct LossSumArgs;
struct MovingAverageArgs;
struct PlanUpdateArgs;
struct RepetitionPenaltyArgs;
struct SquaresOfChunksArgs;
struct SumOfChunksArgs;
struct SwishBackwardArgs;
struct SwishForwardArgs;
struct WeightDecayArgs;

}  // namespace ventris
