#include "trainer/checks/training_plan_scaling.h"

#include <algorithm>
#include <cmath>

#include "comm/communicator.h"
#include "comm/gradient_buckets.h"
#include "comm/tree_layout.h"
#include "model/transformer_parameters.h"

namespace ventris {
namespace {

/// Sums of a few numbers in each step, in addition to the gradients: of the loss, and of the hosts' numbers.
constexpr int kSmallSums = 2;
constexpr double kBytesOfSmallSum = 40.0;

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

int most_partial_sums(int shards, int ranks) {
  size_t most = 1;
  for (int rank = 0; rank < ranks; ++rank)
    most = std::max(most, TreeShare(shards, share_of_rank(shards, rank, ranks)).nodes().size());
  return static_cast<int>(most);
}

}  // namespace

std::vector<ReadyMoment> ready_moments(const TransformerConfig& model, double source_tokens,
                                       double target_tokens) {
  ParameterStore store;
  const TransformerIds ids = declare_transformer(model, store);
  const LayerOperations of = operations_of(model, source_tokens, target_tokens);
  const double forward = model.encoder_layers * of.encoder_layer + model.decoder_layers * of.decoder_layer +
                         of.key_value + of.output;
  // Backward has two products for each one of forward.
  double done = forward + 2 * of.output;
  std::vector<ReadyMoment> moments;
  const auto reach = [&](ParameterId first, double operations) {
    done += 2 * operations;
    moments.push_back({store.offset(first), done / (3 * forward)});
  };
  if (ids.decoder_norm.gamma >= 0) reach(ids.decoder_norm.gamma, 0.0);
  for (size_t i = ids.decoder.size(); i-- > 0;)
    reach(ids.decoder[i].self_attention.query_key_value.weight, of.decoder_layer);
  reach(ids.memory_key_value.weight, of.key_value);
  if (ids.encoder_norm.gamma >= 0) reach(ids.encoder_norm.gamma, 0.0);
  for (size_t i = ids.encoder.size(); i-- > 0;)
    reach(ids.encoder[i].self_attention.query_key_value.weight, of.encoder_layer);
  moments.push_back({0, 1.0});
  return moments;
}

double sum_seconds(const PlannedLink& link, const ScalingInputs& run, double bytes) {
  if (run.ranks == 1) return 0.0;
  const double p = run.ranks;
  const double rounds = std::ceil(std::log2(p));
  const double transfer = bytes / link.bytes_per_second;
  if (run.reduction == Reduction::kReproducible) {
    const double of_host = std::min(run.ranks, run.ranks_per_host);
    const double hosts = std::ceil(p / of_host);
    const int rank_sums = most_partial_sums(run.shards, run.ranks);
    const int host_sums =
        partial_sums_of_a_host(run.shards, consecutive_hosts(run.ranks, run.ranks_per_host));
    return 2 * (of_host - 1) * link.host_latency +
           (rank_sums + 1) * (of_host - 1) / of_host * bytes / link.host_bytes_per_second +
           2 * (hosts - 1) * link.latency + (host_sums + 1) * (hosts - 1) / p * transfer;
  }
  if (run.device == Device::kCpu) return 2 * rounds * (link.latency + transfer);
  const double ring = 2 * (p - 1) * (link.latency + transfer / p);
  const double trees = 2 * rounds * link.latency + 2 * transfer;
  return std::min(ring, trees);
}

PredictedStep predict_step(const PlannedLink& link, const ScalingInputs& run) {
  PredictedStep step;
  const int shards_of_a_rank = (run.shards + run.ranks - 1) / run.ranks;
  const double micro_batch = (link.step_seconds - link.fixed_seconds) / run.shards;
  step.fixed = link.fixed_seconds;
  step.compute = micro_batch * shards_of_a_rank;

  ParameterStore store;
  declare_transformer(run.model, store);
  const std::vector<ReadyMoment> moments = ready_moments(run.model, run.source_tokens, run.target_tokens);
  const auto element = static_cast<int64_t>(size_of(run.gradient_dtype));
  const int64_t bucket_bytes =
      run.device == Device::kCpu ? Communicator::kBucketBytes : Communicator::kDeviceBucketBytes;
  GradientBuckets buckets(store.flat_size(), bucket_bytes / element);
  double end = 0.0;  // of the sums so far
  const auto sum = [&](double ready, double bytes) {
    const double seconds = sum_seconds(link, run, bytes);
    end = std::max(end, ready) + seconds;
    step.sums += seconds;
  };
  for (const ReadyMoment& moment : moments) {
    buckets.ready(moment.begin, [&](int64_t, int64_t count) {
      sum(step.compute - (1.0 - moment.share) * micro_batch, static_cast<double>(count * element));
    });
  }
  for (int i = 0; i < kSmallSums; ++i) sum(step.compute, kBytesOfSmallSum);
  step.exposed = run.device == Device::kCpu ? step.sums : std::max(0.0, end - step.compute);
  step.speedup = link.step_seconds / step.step();
  return step;
}

}  // namespace ventris
