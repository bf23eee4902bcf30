// SPDX-License-Identifier: Apache-2.0
#include "trainer/checks/training_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <tuple>

#include "backend/device/error.h"
#include "data/corpus_writer.h"
#include "model/transformer.h"
#include "tests/support/tiny_run.h"
#include "trainer/run_shape.h"

namespace ventris {
namespace {

using testing::TemporaryFolder;
using testing::tiny_corpus;
using testing::tiny_run_options;

class TrainingPlanTest : public ::testing::Test {
 protected:
  TrainOptions options(const std::string& name) const {
    return tiny_run_options(tiny_corpus(), runs_ / name);
  }

  static int64_t bytes_of(const TrainingPlan& plan, const std::string& name) {
    for (const PlannedMemory& part : plan.memory) {
      if (part.name == name) return part.bytes;
    }
    ADD_FAILURE() << "no " << name;
    return 0;
  }

  TemporaryFolder runs_;
};

TEST_F(TrainingPlanTest, Memory_is_what_the_parts_of_a_run_allocate) {
  for (const Precision precision : {Precision::kF32, Precision::kBF16}) {
    TrainOptions train = options("memory");
    train.precision = precision;
    train.ema = 0.5;
    train.recompute = precision == Precision::kBF16;
    const TrainingPlan plan = plan_training(train, {});

    Context context({.threads = 1});
    ParameterStore store;
    const TransformerIds ids = declare_transformer(plan.model, store);
    store.allocate(Device::kCpu, dtype_of(precision), /*gradients=*/true);
    EXPECT_EQ(plan.parameters, store.parameter_count());
    EXPECT_EQ(bytes_of(plan, "parameters"), store.flat_size() * 4);
    EXPECT_EQ(bytes_of(plan, "gradients"), store.flat_size() * 4);
    if (precision == Precision::kBF16) {
      EXPECT_EQ(bytes_of(plan, "bf16 copy of the parameters"), store.compute_copy().size() * 2);
    }
    const int64_t moments = bytes_of(plan, "Adam's moments and the average");
    EXPECT_GE(moments, 3 * store.flat_size() * 4);
    EXPECT_LE(moments, 3 * store.flat_size() * 4 + 4096);

    const data::Corpus corpus(train.corpus);
    const data::BatchSource batches(corpus.train(), corpus.parts(),
                                    {.source_tokens = train.batch_source_tokens,
                                     .target_tokens = train.batch_target_tokens,
                                     .shards = plan.shards,
                                     .seed = train.seed});
    const Transformer transformer(context, plan.model, store, ids,
                                  model_capacity(batches, corpus, Device::kCpu), train.kept_activations());
    const auto held = static_cast<int64_t>(transformer.activation_bytes());
    EXPECT_LE(bytes_of(plan, "activations"), held);
    EXPECT_GT(bytes_of(plan, "activations"), held - (int64_t{2} << 20));  // an arena is of whole huge pages
  }
}

TEST_F(TrainingPlanTest, Translating_for_validation_takes_memory_where_a_score_asks_for_it) {
  const auto translates = [](const TrainOptions& train) {
    const TrainingPlan plan = plan_training(train, {});
    return std::any_of(plan.memory.begin(), plan.memory.end(),
                       [](const PlannedMemory& part) { return part.name == "translating for validation"; });
  };
  TrainOptions train = options("scores");
  train.valid_every = 5;
  train.valid_beam_size = 0;
  EXPECT_FALSE(translates(train));
  train.valid_beam_size = 4;
  EXPECT_TRUE(translates(train));
  train.valid_every = 0;
  EXPECT_FALSE(translates(train));
}

TEST_F(TrainingPlanTest, A_reproducible_run_needs_partial_sums) {
  TrainOptions train = options("tree");
  train.logical_shards = 4;
  train.reduction = Reduction::kReproducible;
  const TrainingPlan plan = plan_training(train, {});
  EXPECT_EQ(bytes_of(plan, "partial sums of gradients"), 2 * bytes_of(plan, "gradients"));
}

TEST_F(TrainingPlanTest, Steps_and_the_size_of_a_checkpoint_are_those_of_a_run) {
  TrainOptions train = options("run");
  train.max_epochs = 1;
  train.max_steps = 1000;
  train.save_every = 0;
  const TrainingPlan plan = plan_training(train, {});
  Context context({.threads = 1});
  const auto self = make_self_communicator();
  const TrainResult result = ventris::train(context, *self, train, "ventris train (test)");
  EXPECT_EQ(plan.steps_per_epoch, result.step);
  EXPECT_EQ(plan.steps, result.step);
  EXPECT_EQ(plan.epochs, 1.0);
  const auto file = static_cast<int64_t>(std::filesystem::file_size(result.last_checkpoint));
  EXPECT_NEAR(static_cast<double>(plan.checkpoint_bytes), static_cast<double>(file), 16384.0);
}

TEST_F(TrainingPlanTest, Steps_of_a_long_epoch_are_estimated_from_its_first_batches) {
  const std::string path = runs_ / "long.h5";
  const data::Corpus tiny(tiny_corpus());
  data::CorpusWriter writer(path, tiny.tokenizers(), {.weights = false, .text = false});
  const auto side = [](int64_t length) {
    const std::vector<int32_t> tokens(static_cast<size_t>(length), 5);
    data::CorpusSide one;
    one.add(tokens);
    return one;
  };
  writer.begin_part("sorted");
  constexpr int64_t kPairs = 90001;
  for (int64_t i = 0; i < kPairs; ++i) {
    const int64_t source = 1 + 20 * i / kPairs;
    writer.add_train({.source = side(source), .target = side(21 - source)});
  }
  writer.end_part("{}");
  writer.commit();
  const TrainOptions train = tiny_run_options(path, runs_ / "long");
  const TrainingPlan plan = plan_training(train, {});
  EXPECT_FALSE(plan.steps_are_exact);
  const data::Corpus corpus(path);
  const data::BatchSource batches(corpus.train(), corpus.parts(),
                                  {.source_tokens = train.batch_source_tokens,
                                   .target_tokens = train.batch_target_tokens,
                                   .shards = plan.shards,
                                   .seed = train.seed});
  double steps = 0.0;
  for (data::DataPosition at; at.epoch == 0; at = batches.at(at).next) ++steps;
  EXPECT_NEAR(static_cast<double>(plan.steps_per_epoch), steps, 0.01 * steps);
  EXPECT_TRUE(plan_training(options("short"), {}).steps_are_exact);
}

TEST_F(TrainingPlanTest, The_nearer_of_two_ends_counts) {
  TrainOptions train = options("ends");
  train.save_every = 1;
  train.max_epochs = 2;
  const int64_t epoch = plan_training(train, {}).steps_per_epoch;
  ASSERT_GT(epoch, 1);
  train.max_steps = 2 * epoch + 1;
  EXPECT_EQ(plan_training(train, {}).steps, 2 * epoch);
  train.max_steps = 2 * epoch - 1;
  EXPECT_EQ(plan_training(train, {}).steps, 2 * epoch - 1);
  train.max_epochs = 0;
  for (const auto& [end, steps, most] :
       {std::tuple{"", 1000, false}, std::tuple{" until 7 steps", 12, false},
        std::tuple{" until 5000 steps", 1000, false}, std::tuple{" until train 9", 1000, true}}) {
    train.max_steps = 1000;
    train.mix = fmt::format("one: train 1 until 5 steps\ntwo: train 1{}\n", end);
    EXPECT_EQ(plan_training(train, {}).steps, steps) << train.mix;
    EXPECT_EQ(plan_training(train, {}).steps_are_most, most) << train.mix;
  }
  train.mix = "";
  train.max_steps = 3;
  train.keep_checkpoints = 8;
  EXPECT_EQ(plan_training(train, {}).checkpoints,
            4 + 2);  // of steps 0 to 3, the best and the one being written
}

TEST_F(TrainingPlanTest, A_host_that_is_too_small_is_told_with_remedies) {
  const TrainOptions train = options("large");
  PlannedMachine machine;
  machine.host_memory = plan_training(train, machine).bytes_of_a_host();
  EXPECT_EQ(plan_training(train, machine).excess, "");
  --machine.host_memory;
  const std::string excess = plan_training(train, machine).excess;
  EXPECT_NE(excess.find("the 1 rank of a host need"), std::string::npos) << excess;
  EXPECT_NE(excess.find("--micro-batch-tokens"), std::string::npos) << excess;
}

TEST_F(TrainingPlanTest, The_memory_of_a_device_counts_apart_from_that_of_its_host) {
  PlannedMachine machine = {.ranks = 4, .ranks_per_host = 2, .device = Device::kCuda};
  TrainOptions train = options("device");
  train.logical_shards = 4;
  const TrainingPlan plan = plan_training(train, machine);
  EXPECT_EQ(plan.shards_of_a_rank, 1);
  EXPECT_GT(plan.device_bytes(), bytes_of(plan, "activations") + bytes_of(plan, "gradients"));
  EXPECT_LT(plan.host_bytes(), plan.device_bytes());
  EXPECT_EQ(plan.bytes_of_a_host(), 2 * plan.host_bytes() - bytes_of(plan, "snapshot to be saved"));
  machine.device_memory = plan.device_bytes() - 1;
  EXPECT_NE(plan_training(train, machine).excess.find("CUDA device"), std::string::npos);
  machine.device_memory = plan.device_bytes();
  EXPECT_EQ(plan_training(train, machine).excess, "");
}

/// A step of 6.5 s on one rank, of which 0.1 s are repeated, in 64 micro-batches, and sums at 1 GB/s.
TrainingPlan predicted_plan(TrainOptions train, int ranks, Device device) {
  train.logical_shards = 64;
  train.batch_source_tokens = train.batch_target_tokens = 4096;
  return plan_training(train, {.ranks = ranks,
                               .device = device,
                               .step = 6.5,
                               .fixed = 0.1,
                               .sum_latency = 1e-3,
                               .sum_bandwidth = 1e9});
}

TEST_F(TrainingPlanTest, One_rank_takes_the_measured_step) {
  const PredictedStep step = *predicted_plan(options("one"), 1, Device::kCuda).predicted;
  EXPECT_DOUBLE_EQ(step.step(), 6.5);
  EXPECT_DOUBLE_EQ(step.efficiency, 1.0);
  EXPECT_EQ(step.exchange, 0.0);
}

TEST_F(TrainingPlanTest, Ranks_compute_their_share_and_exchange_the_gradients) {
  const TrainingPlan plan = predicted_plan(options("many"), 3, Device::kCpu);
  const PredictedStep& step = *plan.predicted;
  EXPECT_DOUBLE_EQ(step.compute, 0.1 + 6.4 * 22 / 64);
  const auto bytes = static_cast<double>(bytes_of(plan, "gradients"));
  EXPECT_NEAR(step.exchange, 2e-3 + 2.0 * 2.0 / 3.0 * bytes / 1e9, 1e-9);  // one bucket, and the loss
  EXPECT_EQ(step.exposed, step.exchange);
  EXPECT_DOUBLE_EQ(step.efficiency, 6.5 / (3.0 * step.step()));
  const PredictedStep on_cuda = *predicted_plan(options("many"), 3, Device::kCuda).predicted;
  EXPECT_LT(on_cuda.exposed, step.exposed);
  EXPECT_GE(on_cuda.exposed, 1e-3);  // of the embedding, which is complete last
}

TEST_F(TrainingPlanTest, Owners_exchange_gradients_once_and_parameters) {
  TrainOptions train = options("owners");
  const PredictedStep whole = *predicted_plan(train, 4, Device::kCpu).predicted;
  train.shard_optimizer = true;
  const PredictedStep shared = *predicted_plan(train, 4, Device::kCpu).predicted;
  EXPECT_NEAR(shared.exchange, whole.exchange, 1e-9);  // both in f32
  train.precision = Precision::kBF16;
  EXPECT_LT(predicted_plan(train, 4, Device::kCpu).predicted->exchange, shared.exchange);
}

TEST_F(TrainingPlanTest, Options_that_training_refuses_are_refused) {
  TrainOptions train = options("refused");
  train.model.heads = 7;
  EXPECT_THROW(plan_training(train, {}), Error);
  train = options("refused");
  train.model.max_positions = 3;
  EXPECT_THROW(plan_training(train, {}), Error);
}

}  // namespace
}  // namespace ventris
