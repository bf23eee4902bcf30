// SPDX-License-Identifier: Apache-2.0
#include "trainer/checks/training_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "backend/error.h"
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

/// Writes pairs in the order of their source lengths, from 1 token to 20 as the target's go from 20 to 1, so
/// that a part of the file says little of the others.
std::string make_sorted_corpus(const std::string& path, int64_t pairs) {
  const data::Corpus tiny(tiny_corpus());
  data::CorpusWriter writer(path, tiny.tokenizers(), {.weights = false, .text = false});
  const auto side = [&](int64_t length) {
    const std::vector<int32_t> tokens(static_cast<size_t>(length), 5);
    data::CorpusSide one;
    one.add(tokens);
    return one;
  };
  writer.begin_part("sorted");
  for (int64_t i = 0; i < pairs; ++i) {
    const int64_t source = 1 + 20 * i / pairs;
    writer.add_train(data::rows_of(side(source), side(21 - source), {}));
  }
  writer.end_part("{}");
  writer.commit();
  return path;
}

TEST_F(TrainingPlanTest, Steps_of_an_epoch_of_65536_pairs_are_exact_and_of_more_within_half_a_percent) {
  for (const auto& [pairs, target_tokens] : {std::pair{65536, 400}, {65537, 400}, {90001, 480}}) {
    const std::string path = make_sorted_corpus(runs_ / std::to_string(pairs), pairs);
    TrainOptions train = tiny_run_options(path, runs_ / "long");
    train.batch_target_tokens = target_tokens;
    const TrainingPlan plan = plan_training(train, {});
    EXPECT_EQ(plan.steps_are_exact, pairs == 65536);
    const data::Corpus corpus(train.corpus);
    const data::BatchSource batches(corpus.train(), corpus.parts(),
                                    {.source_tokens = train.batch_source_tokens,
                                     .target_tokens = train.batch_target_tokens,
                                     .shards = plan.shards,
                                     .seed = train.seed});
    int64_t steps = 0;
    for (data::DataPosition at; at.epoch == 0; at = batches.at(at).next) ++steps;
    if (plan.steps_are_exact) {
      EXPECT_EQ(plan.steps_per_epoch, steps);
    } else {
      EXPECT_NEAR(static_cast<double>(plan.steps_per_epoch), static_cast<double>(steps),
                  0.005 * static_cast<double>(steps));
    }
  }
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
  train.max_steps = 3;
  train.keep_checkpoints = 8;
  EXPECT_EQ(plan_training(train, {}).checkpoints,
            4 + 2);  // of steps 0 to 3, the best and the one being written
}

TEST_F(TrainingPlanTest, What_does_not_fit_is_told_with_what_would) {
  TrainOptions train = options("large");
  train.batch_source_tokens = train.batch_target_tokens = 4096;
  train.logical_shards = 1;
  PlannedMachine machine;
  EXPECT_EQ(plan_training(train, machine).excess, "");
  TrainOptions halves = train;
  halves.logical_shards = 2;
  machine.host_memory = plan_training(halves, machine).bytes_of_a_host();
  const std::string excess = plan_training(train, machine).excess;
  EXPECT_NE(excess.find("--logical-shards 2"), std::string::npos) << excess;
  EXPECT_EQ(plan_training(halves, machine).excess, "");

  machine.host_memory = 1;
  const std::string hopeless = plan_training(train, machine).excess;
  EXPECT_NE(hopeless.find("--precision bf16"), std::string::npos) << hopeless;
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

TEST_F(TrainingPlanTest, A_full_disk_is_told_with_how_many_checkpoints_fit) {
  TrainOptions train = options("disk");
  train.max_steps = 100;
  train.save_every = 10;
  train.keep_checkpoints = 8;
  PlannedMachine machine;
  machine.free_disk = plan_training(train, machine).checkpoint_bytes * 5;
  const TrainingPlan plan = plan_training(train, machine);
  EXPECT_EQ(plan.checkpoints, 10);  // the best and the one being written besides
  EXPECT_NE(plan.excess.find("--keep-checkpoints 3 fits"), std::string::npos) << plan.excess;
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
