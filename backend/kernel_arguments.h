#pragma once

/// The arguments of kernels by name alone, so that a change to one operation compiles its own files again and
/// not those of all. Each is in the header of its operation.

namespace ventris {

class Context;
struct Tensor;
struct AdamArgs;
struct AddArgs;
struct BiasBackwardArgs;
struct BiasReluBackwardArgs;
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
struct SumOfSquaresArgs;
struct SwishBackwardArgs;
struct SwishForwardArgs;

}  // namespace ventris
