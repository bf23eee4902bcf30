// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/arena.h"
#include "backend/dtype.h"
#include "model/transformer_config.h"
#include "trainer/train_options.h"

namespace ventris {

/// The network between the ranks and a step measured on one rank, from which the step of several is
/// predicted.
struct PlannedLink {
  double bytes_per_second = 0.0;       // from a rank to other hosts, and at the same time from them
  double latency = 0.0;                // seconds from the start of a message to that of its first byte
  double host_bytes_per_second = 0.0;  // the same between ranks of one host
  double host_latency = 0.0;
  double step_seconds = 0.0;   // of one rank that computes all micro-batches of a step
  double fixed_seconds = 0.0;  // of these, what every rank repeats: the update, launches
};

/// What the prediction takes from the plan of a run.
struct ScalingInputs {
  TransformerConfig model;
  Device device;
  Reduction reduction;
  DType gradient_dtype;
  DType precision;  // of the parameters that --shard-optimizer exchanges
  bool recompute;
  bool shard_optimizer;
  int ranks;
  int ranks_per_host;
  int shards;                       // of a global batch
  std::vector<std::string> freeze;  // TrainOptions::freeze
  double source_tokens;             // of a sentence pair, on average
  double target_tokens;
};

/// A step of several ranks: a prediction.
struct PredictedStep {
  double compute = 0.0;  // seconds of forward and backward on the rank with most micro-batches
  double fixed = 0.0;    // PlannedLink::fixed_seconds
  double sums = 0.0;     // of all sums over the ranks, one after the other
  double exposed = 0.0;  // of these, the time in which no rank computes
  double sharing = 0.0;  // of norm and parameters with --shard-optimizer, in which no rank computes
  double step() const { return compute + fixed + exposed + sharing; }
  double speedup = 1.0;  // over one rank
};

/// A moment of backward: the gradients of elements at or after `begin` are complete after this share of the
/// time of forward and backward, from 0 to 1, if time follows the floating-point operations.
struct ReadyMoment {
  int64_t begin;
  double share;
};

/// The calls of GradientsReady in a micro-batch of sentences of that length, in order. What `freeze` saves of
/// backward is not taken into account.
std::vector<ReadyMoment> ready_moments(const TransformerConfig& model, const std::vector<std::string>& freeze,
                                       bool recompute, double source_tokens, double target_tokens);

/// The moment, as that of ReadyMoment, at which the loss is complete.
double loss_moment(const TransformerConfig& model, bool recompute, double source_tokens,
                   double target_tokens);

/// Operations of --recompute, as a share of those of a step without it.
double recomputed_share(const TransformerConfig& model, double source_tokens, double target_tokens);

/// Seconds of NCCL's reduce-scatter, or all-gather, of `bytes` in all, as rings, with p ranks on m hosts of l
/// ranks each, n bytes, latency a and b = 1 / bytes_per_second between hosts, a' and b' inside them:
/// (p - m) a' + (m - 1) a + (p - 1) / p n max(b', b / l). A host has a link for each rank, and the rings go
/// through all of them (docs/scaling.md).
double ring_seconds(const PlannedLink& link, const ScalingInputs& run, double bytes);

/// Seconds of the library's sum of `bytes` over all ranks, by the same letters, without the additions:
///   CPU: a binomial tree to one rank and back, 2 ceil(log2 p) (a + n b), which Open MPI 4 uses in place
///        (Thakur, Rabenseifner and Gropp 2005, Optimization of Collective Communication Operations in MPICH)
///   CUDA: the smaller one of two ring_seconds() and of NCCL's trees, a chain in each host and two binary
///        trees between hosts, 2 ((l - 1) a' + ceil(log2 m) a + n max(b', b / l))
double library_seconds(const PlannedLink& link, const ScalingInputs& run, double bytes);

/// The same of gradients, and of the loss: library_seconds() with --reduction fast, otherwise pairwise
/// exchanges of the same source between all ranks (comm/tree_sum.h), l - 1 of them inside a host:
/// 2 ((l - 1) a' + (p - l) a) + (k + 1) / p n ((l - 1) b' + (p - l) b), where k is the greatest number of
/// partial sums of a rank.
double sum_seconds(const PlannedLink& link, const ScalingInputs& run, double bytes);

/// Seconds of the pairwise exchange in which every rank gets `bytes` / p from each other rank:
/// (p - 1) a + (p - 1) / p n b.
double exchange_seconds(const PlannedLink& link, int ranks, double bytes);

/// Buckets (comm/gradient_buckets.h) are summed one after the other, each once backward has completed it. On
/// CUDA that overlaps with the rest of backward; on CPUs the ranks move the bytes themselves, and it does
/// not. The sum of the loss precedes backward. With --shard-optimizer only owners get the sum of a bucket: by
/// the first half of the exchanges, or by ring_seconds() on CUDA if the sum is not in a tree. After the last
/// one follow the sum of the squares of gradients and, all at once, the parameters: ring_seconds() on CUDA,
/// exchange_seconds() on CPUs.
PredictedStep predict_step(const PlannedLink& link, const ScalingInputs& run);

}  // namespace ventris
