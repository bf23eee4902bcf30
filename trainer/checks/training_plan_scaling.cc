// SPDX-License-Identifier: Apache-2.0
#include "trainer/checks/training_plan_scaling.h"

#include <algorithm>
#include <cmath>

#include "backend/global_norm.h"
#include "comm/gradient_buckets.h"
#include "comm/tree_plan.h"
#include "model/transformer_parameters.h"
#include "trainer/frozen_parameters.h"
#include "trainer/optimizer_shard.h"
#include "trainer/run_shape.h"

namespace ventris {
namespace {

/// Sums of a few numbers in each step, in addition to the gradients: of the loss, and of the hosts' numbers,
/// for which CPUs wait after the step.
constexpr double kBytesOfLoss = 16.0;
constexpr double kBytesOfHostNumbers = 40.0;

/// Forward operations per layer of a sentence pair, by training_flops() without attention's products, which
/// are a few percent.
struct LayerOperations {
  double encoder_layer, decoder_layer, key_value, output;
};

LayerOperations operations_of(const TransformerConfig& model, double source, double target) {
  const double d = model.d_model;
  const double ff = model.d_ff;
  return {.encoder_layer = source * (4 * d * d + 2 * d * ff),
          .decoder_layer = target * (6 * d * d + 2 * d * ff),
          .key_value = source * 2 * d * d * model.decoder_layers,
          .output = target * d * static_cast<double>(model.vocab_size)};
}

double forward_operations(const TransformerConfig& model, const LayerOperations& of) {
  return model.encoder_layers * of.encoder_layer + model.decoder_layers * of.decoder_layer + of.key_value +
         of.output;
}

/// Forward operations that --recompute repeats: of all layers but the last of each stack.
double repeated_operations(const TransformerConfig& model, const LayerOperations& of) {
  return (model.encoder_layers - 1) * of.encoder_layer + (model.decoder_layers - 1) * of.decoder_layer;
}

/// Of forward and backward, which has two products for each one of forward.
double all_operations(const TransformerConfig& model, bool recompute, const LayerOperations& of) {
  return 3 * forward_operations(model, of) + (recompute ? repeated_operations(model, of) : 0.0);
}

int host_count(const ScalingInputs& run) {
  return (run.ranks + run.ranks_per_host - 1) / run.ranks_per_host;
}

/// The slower of two rates: inside a host, and out of the host with the fewest ranks over all their links.
double seconds_a_byte(const PlannedLink& link, const ScalingInputs& run) {
  const int others = host_count(run) - 1;
  const int fewest = run.ranks - others * run.ranks_per_host;
  const double inside = run.ranks_per_host > 1 ? 1.0 / link.host_bytes_per_second : 0.0;
  const double between = others > 0 ? 1.0 / (fewest * link.bytes_per_second) : 0.0;
  return std::max(inside, between);
}

int most_partial_sums(int shards, int ranks) {
  size_t most = 1;
  for (int rank = 0; rank < ranks; ++rank)
    most = std::max(most, TreeShare(shards, share_of_rank(shards, rank, ranks)).nodes().size());
  return static_cast<int>(most);
}

}  // namespace

std::vector<ReadyMoment> ready_moments(const TransformerConfig& model, const std::vector<std::string>& freeze,
                                       bool recompute, double source_tokens, double target_tokens) {
  ParameterStore store;
  const TransformerIds ids = declare_transformer(model, store);
  freeze_parameters(freeze, store);
  const LayerOperations of = operations_of(model, source_tokens, target_tokens);
  const double all = all_operations(model, recompute, of);
  double done = forward_operations(model, of) + 2 * of.output;
  std::vector<ReadyMoment> moments;
  const auto reach = [&](ParameterId first, double operations, bool repeated = false) {
    done += (repeated ? 3 : 2) * operations;
    moments.push_back({store.gradient_begin(first), done / all});
  };
  if (ids.decoder_norm.gamma >= 0) reach(ids.decoder_norm.gamma, 0.0);
  for (size_t i = ids.decoder.size(); i-- > 0;)
    reach(ids.decoder[i].self_attention.query_key_value.weight, of.decoder_layer,
          recompute && i + 1 < ids.decoder.size());
  reach(ids.memory_key_value.weight, of.key_value);
  if (ids.encoder_norm.gamma >= 0) reach(ids.encoder_norm.gamma, 0.0);
  for (size_t i = ids.encoder.size(); i-- > 0;)
    reach(ids.encoder[i].self_attention.query_key_value.weight, of.encoder_layer,
          recompute && i + 1 < ids.encoder.size());
  moments.push_back({0, 1.0});
  return moments;
}

double loss_moment(const TransformerConfig& model, bool recompute, double source_tokens,
                   double target_tokens) {
  const LayerOperations of = operations_of(model, source_tokens, target_tokens);
  return (forward_operations(model, of) + 2 * of.output) / all_operations(model, recompute, of);
}

double recomputed_share(const TransformerConfig& model, double source_tokens, double target_tokens) {
  const LayerOperations of = operations_of(model, source_tokens, target_tokens);
  return repeated_operations(model, of) / all_operations(model, false, of);
}

double exchange_seconds(const PlannedLink& link, int ranks, double bytes) {
  return (ranks - 1) * (link.latency + bytes / ranks / link.bytes_per_second);
}

double ring_seconds(const PlannedLink& link, const ScalingInputs& run, double bytes) {
  const double p = run.ranks;
  const double hosts = host_count(run);
  return (p - hosts) * link.host_latency + (hosts - 1) * link.latency +
         (p - 1) / p * bytes * seconds_a_byte(link, run);
}

/// A sum of the shards of all ranks in the order of the tree (comm/tree_sum.h), whose result goes to all
/// ranks, or stays with the owners of its segments.
double tree_seconds(const PlannedLink& link, const ScalingInputs& run, double bytes, bool to_all) {
  const double p = run.ranks;
  const double of_host = std::min(run.ranks, run.ranks_per_host);
  const int back = to_all ? 1 : 0;
  const double inside = link.host_latency * (1 + back) * (of_host - 1);
  const double between = link.latency * (1 + back) * (p - of_host);
  const double sent = (most_partial_sums(run.shards, run.ranks) + back) * bytes / p;
  return inside + between + sent * (of_host - 1) / link.host_bytes_per_second +
         sent * (p - of_host) / link.bytes_per_second;
}

double sum_seconds(const PlannedLink& link, const ScalingInputs& run, double bytes) {
  if (run.ranks == 1) return 0.0;
  return run.reduction == Reduction::kReproducible ? tree_seconds(link, run, bytes, true)
                                                   : library_seconds(link, run, bytes);
}

double library_seconds(const PlannedLink& link, const ScalingInputs& run, double bytes) {
  if (run.ranks == 1) return 0.0;
  if (run.device == Device::kCpu)
    return 2 * std::ceil(std::log2(run.ranks)) * (link.latency + bytes / link.bytes_per_second);
  const double chain = std::min(run.ranks, run.ranks_per_host) - 1;
  const double depth = std::ceil(std::log2(host_count(run)));
  const double trees =
      2 * (chain * link.host_latency + depth * link.latency + bytes * seconds_a_byte(link, run));
  return std::min(2 * ring_seconds(link, run, bytes), trees);
}

PredictedStep predict_step(const PlannedLink& link, const ScalingInputs& run) {
  PredictedStep step;
  const int shards_of_a_rank = (run.shards + run.ranks - 1) / run.ranks;
  const double micro_batch = (link.step_seconds - link.fixed_seconds) / run.shards;
  step.fixed = link.fixed_seconds;
  step.compute = micro_batch * shards_of_a_rank;

  ParameterStore store;
  declare_transformer(run.model, store);
  freeze_parameters(run.freeze, store);
  const std::vector<ReadyMoment> moments =
      ready_moments(run.model, run.freeze, run.recompute, run.source_tokens, run.target_tokens);
  const auto element = static_cast<int64_t>(size_of(run.gradient_dtype));
  const bool shares = run.shard_optimizer && run.ranks > 1;
  const auto to_owners = [&](double bytes) {
    if (run.reduction == Reduction::kReproducible) return tree_seconds(link, run, bytes, false);
    return run.device == Device::kCuda ? ring_seconds(link, run, bytes) : library_seconds(link, run, bytes);
  };
  GradientBuckets buckets = shares
                                ? OptimizerShard::plan_of(store, run.device, run.ranks).buckets()
                                : GradientBuckets(store.trained_size(), bucket_bytes_on(run.device) / element,
                                                  tail_of_sums(store, run.device));
  double end = 0.0;  // of the sums so far
  const auto take = [&](double ready, double seconds) {
    end = std::max(end, ready) + seconds;
    step.sums += seconds;
  };
  const auto moment_of = [&](double share) { return step.compute - (1.0 - share) * micro_batch; };
  take(moment_of(loss_moment(run.model, run.recompute, run.source_tokens, run.target_tokens)),
       sum_seconds(link, run, kBytesOfLoss));
  for (const ReadyMoment& moment : moments) {
    buckets.ready(moment.begin, [&](int64_t, int64_t count) {
      const auto bytes = static_cast<double>(count * element);
      take(moment_of(moment.share), shares ? to_owners(bytes) : sum_seconds(link, run, bytes));
    });
  }
  if (run.device == Device::kCpu) take(step.compute, library_seconds(link, run, kBytesOfHostNumbers));
  step.exposed = run.device == Device::kCpu ? step.sums : std::max(0.0, end - step.compute);
  if (shares) {
    step.sharing = library_seconds(link, run, static_cast<double>(squares_chunks(store.trained_size()) * 8));
    const double parameters =
        static_cast<double>(store.trained_size()) * static_cast<double>(size_of(run.precision));
    step.sharing += run.device == Device::kCuda ? ring_seconds(link, run, parameters)
                                                : exchange_seconds(link, run.ranks, parameters);
  }
  step.speedup = link.step_seconds / step.step();
  return step;
}

}  // namespace ventris
