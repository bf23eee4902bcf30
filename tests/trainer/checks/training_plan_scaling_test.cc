// SPDX-License-Identifier: Apache-2.0
#include "trainer/checks/training_plan_scaling.h"

#include <gtest/gtest.h>

#include <vector>

#include "model/transformer_parameters.h"
#include "tests/support/tiny_model.h"
#include "trainer/optimizer_shard.h"

namespace ventris {
namespace {

ScalingInputs base_of(int ranks, Device device, Reduction reduction = Reduction::kFast) {
  TransformerConfig model;
  model.vocab_size = 37000;
  return {.model = model,
          .device = device,
          .reduction = reduction,
          .gradient_dtype = DType::kF32,
          .precision = DType::kBF16,
          .recompute = false,
          .shard_optimizer = false,
          .ranks = ranks,
          .ranks_per_host = ranks,
          .shards = 64,
          .freeze = {},
          .source_tokens = 28.0,
          .target_tokens = 28.0};
}

constexpr PlannedLink kLink = {.bytes_per_second = 1e9,
                               .latency = 1e-3,
                               .host_bytes_per_second = 1e9,
                               .host_latency = 1e-3,
                               .step_seconds = 6.5,
                               .fixed_seconds = 0.1};

TEST(ReadyMoments, AreTheCallsOfBackward) {
  for (const auto& [pre_norm, recompute] :
       {std::pair(false, false), {true, false}, {false, true}, {true, true}}) {
    const TransformerConfig config = testing::tiny_config(pre_norm);
    testing::TinyModel tiny(config, DType::kF32);
    std::vector<int64_t> begins;
    tiny.step(testing::PackedBatch({{{4, 5, 6}, {7, 8}}}), {},
              [&](int64_t begin) { begins.push_back(begin); });
    std::vector<int64_t> predicted;
    double before = loss_moment(config, recompute, 3.0, 2.0);
    EXPECT_GT(before * (1.0 + (recompute ? recomputed_share(config, 3.0, 2.0) : 0.0)), 1.0 / 3.0);
    for (const ReadyMoment& moment : ready_moments(config, {}, recompute, 3.0, 2.0)) {
      predicted.push_back(moment.begin);
      EXPECT_GE(moment.share, before);
      before = moment.share;
    }
    EXPECT_EQ(predicted, begins);
    EXPECT_DOUBLE_EQ(before, 1.0);
  }
}

TEST(SumSeconds, FollowTheirFormulas) {
  const double bytes = 8e6;  // 8 ms over the link
  EXPECT_DOUBLE_EQ(sum_seconds(kLink, base_of(1, Device::kCpu), bytes), 0.0);
  // The library sends two and then four messages of everything, one after the other.
  EXPECT_DOUBLE_EQ(sum_seconds(kLink, base_of(2, Device::kCpu), bytes), 2 * 9e-3);
  EXPECT_DOUBLE_EQ(sum_seconds(kLink, base_of(4, Device::kCpu), bytes), 4 * 9e-3);
  // 64 shards: every rank has one partial sum left. Of 5 shards on three ranks, the second has two.
  EXPECT_DOUBLE_EQ(sum_seconds(kLink, base_of(4, Device::kCuda, Reduction::kReproducible), bytes),
                   6e-3 + 2 * 0.75 * 8e-3);
  ScalingInputs odd = base_of(3, Device::kCuda, Reduction::kReproducible);
  odd.shards = 5;
  EXPECT_DOUBLE_EQ(sum_seconds(kLink, odd, bytes), 4e-3 + 3 * 2.0 / 3.0 * 8e-3);
  // Two hosts of four, in which a message takes a quarter of the time: each rank sends an eighth to each.
  PlannedLink fast_hosts = kLink;
  fast_hosts.host_bytes_per_second = 4e9;
  fast_hosts.host_latency = 0.25e-3;
  ScalingInputs hosts = base_of(8, Device::kCuda, Reduction::kReproducible);
  hosts.ranks_per_host = 4;
  EXPECT_DOUBLE_EQ(sum_seconds(fast_hosts, hosts, bytes),
                   6 * 0.25e-3 + 8e-3 + 2.0 / 8.0 * (3 * 2e-3 + 4 * 8e-3));
}

TEST(SumSeconds, OfNcclGoThroughAllLinksOfAHost) {
  const double bytes = 8e6;  // 8 ms over a link
  // In one host a ring: six messages of a quarter.
  EXPECT_DOUBLE_EQ(sum_seconds(kLink, base_of(4, Device::kCuda), bytes), 6 * 3e-3);
  // Between 64 hosts of one GPU: 126 latencies of a ring are more than the 12 of two trees.
  ScalingInputs run = base_of(64, Device::kCuda);
  run.ranks_per_host = 1;
  EXPECT_DOUBLE_EQ(sum_seconds(kLink, run, bytes), 12e-3 + 16e-3);
  // Two hosts of four GPUs: 2 ms inside a host, and 2 ms over the four links of a host. A ring has six steps
  // inside hosts and one between them, each way; a tree three and one.
  PlannedLink link = kLink;
  link.host_bytes_per_second = 4e9;
  link.host_latency = 0.25e-3;
  run = base_of(8, Device::kCuda);
  run.ranks_per_host = 4;
  EXPECT_NEAR(ring_seconds(link, run, bytes), 1.5e-3 + 1e-3 + 7.0 / 8.0 * 2e-3, 1e-12);
  EXPECT_NEAR(sum_seconds(link, run, bytes), 2 * (0.75e-3 + 1e-3 + 2e-3), 1e-12);
  // The slower one counts: inside hosts, and then between them.
  link.host_bytes_per_second = 2e9;
  EXPECT_NEAR(ring_seconds(link, run, bytes), 1.5e-3 + 1e-3 + 7.0 / 8.0 * 4e-3, 1e-12);
  link.host_bytes_per_second = 16e9;
  EXPECT_NEAR(ring_seconds(link, run, bytes), 1.5e-3 + 1e-3 + 7.0 / 8.0 * 2e-3, 1e-12);
  // Six GPUs: the second host has two, and two links. Two rings are faster than the trees, 11.5 ms.
  run.ranks = 6;
  EXPECT_NEAR(sum_seconds(link, run, bytes), 2 * (1e-3 + 1e-3 + 5.0 / 6.0 * 4e-3), 1e-12);
}

TEST(PredictedStepTest, OneRankTakesWhatWasMeasured) {
  const PredictedStep step = predict_step(kLink, base_of(1, Device::kCuda));
  EXPECT_DOUBLE_EQ(step.step(), kLink.step_seconds);
  EXPECT_DOUBLE_EQ(step.speedup, 1.0);
  EXPECT_EQ(step.sums, 0.0);
}

TEST(PredictedStepTest, ARankComputesItsShareAndRepeatsTheRest) {
  const PredictedStep step = predict_step(kLink, base_of(3, Device::kCpu));
  EXPECT_DOUBLE_EQ(step.compute, 6.4 * 22 / 64);
  EXPECT_DOUBLE_EQ(step.fixed, 0.1);
  EXPECT_DOUBLE_EQ(step.step(), step.compute + 0.1 + step.sums);
}

TEST(PredictedStepTest, OnlyTheEmbeddingIsLeftForAFastLinkBetweenDevices) {
  PlannedLink link = kLink;
  link.latency = link.host_latency = 0.0;
  link.bytes_per_second = link.host_bytes_per_second = 1e12;
  ScalingInputs run = base_of(64, Device::kCuda);
  const PredictedStep step = predict_step(link, run);
  // The table has 37,000 rows of 2 KiB, padded, in one bucket. The 16 MiB before it are complete at the same
  // time, as no operations are counted after the first layer.
  const double embedding = sum_seconds(link, run, 2048.0 * static_cast<double>(run.model.padded_vocab()));
  EXPECT_NEAR(step.exposed, embedding + sum_seconds(link, run, 16 << 20), 1e-9);
  EXPECT_GT(step.sums, 2 * step.exposed);
  EXPECT_NEAR(predict_step(link, base_of(64, Device::kCpu)).exposed,
              predict_step(link, base_of(64, Device::kCpu)).sums, 1e-12);
}

TEST(PredictedStepTest, OwnersSumTheirSegmentsAndSendTheirParameters) {
  ScalingInputs run = base_of(4, Device::kCpu);
  run.shard_optimizer = true;
  const PredictedStep step = predict_step(kLink, run);
  ParameterStore store;
  declare_transformer(run.model, store);
  const auto parameters = static_cast<double>(store.flat_size());
  const auto buckets =
      static_cast<double>(OptimizerShard::plan_of(store, run.device, run.ranks).buckets().count());
  EXPECT_GE(buckets, parameters / (1 << 20));
  // The library's sums of all gradients in f32, four messages a bucket, and of the loss and host numbers.
  EXPECT_NEAR(step.sums, 4 * 4e-9 * parameters + 4 * buckets * kLink.latency + 8 * kLink.latency, 1e-5);
  // Three quarters of all parameters in bf16, all buckets at once.
  EXPECT_NEAR(step.sharing, 0.75 * 2e-9 * parameters + 3 * kLink.latency + 4 * kLink.latency, 1e-3);
  EXPECT_DOUBLE_EQ(step.step(), step.compute + step.fixed + step.exposed + step.sharing);
  run.ranks = 1;
  EXPECT_EQ(predict_step(kLink, run).sharing, 0.0);
}

TEST(PredictedStepTest, OwnersOnDevicesScatterGradientsAndGatherParametersInRings) {
  PlannedLink link = kLink;
  link.latency = link.host_latency = 0.0;
  link.bytes_per_second = 0.5e9;  // 2 GB/s over the four links of a host
  ScalingInputs run = base_of(8, Device::kCuda);
  run.ranks_per_host = 4;
  run.shard_optimizer = true;
  const PredictedStep step = predict_step(link, run);
  ParameterStore store;
  declare_transformer(run.model, store);
  const auto parameters = static_cast<double>(store.flat_size());
  // Seven eighths of all gradients in f32, and of all parameters in bf16, at the rate inside a host, 1 GB/s.
  EXPECT_NEAR(step.sums, 7.0 / 8.0 * 4e-9 * parameters, 1e-5);
  EXPECT_NEAR(step.sharing, 7.0 / 8.0 * 2e-9 * parameters, 1e-3);
  // Exchanges of partial sums send an eighth to each of three ranks inside the host and four outside.
  run.reduction = Reduction::kReproducible;
  const PredictedStep in_tree = predict_step(link, run);
  EXPECT_NEAR(in_tree.sums, (3 + 2 * 4) / 8.0 * 4e-9 * parameters, 1e-5);
  EXPECT_DOUBLE_EQ(in_tree.sharing, step.sharing);
}

TEST(PredictedStepTest, ASlowLinkHidesNothingButTheFirstMoments) {
  PlannedLink link = kLink;
  link.bytes_per_second = link.host_bytes_per_second = 1e6;
  const PredictedStep step = predict_step(link, base_of(64, Device::kCuda));
  EXPECT_LT(step.sums - step.exposed, step.compute);
  EXPECT_GT(step.exposed, 0.99 * step.sums);
  EXPECT_LT(step.speedup, 1.0);
}

}  // namespace
}  // namespace ventris
