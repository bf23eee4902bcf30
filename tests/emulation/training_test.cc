// SPDX-License-Identifier: Apache-2.0
// Training runs on the emulated CUDA device beside the same runs on the CPU.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/tiny_run.h"
#include "trainer/checkpoint/weights.h"

namespace ventris {
namespace {

using testing::kTinyVocabulary;
using testing::LoadedState;
using testing::TemporaryFolder;

ContextOptions training_cuda() {
  return {.device = Device::kCuda, .scratch_bytes = size_t{1} << 20};
}

class CudaTraining : public ::testing::Test {
 protected:
  TrainOptions options(const std::string& name, int64_t steps) const {
    TrainOptions run = testing::tiny_run_options(testing::tiny_corpus(), runs_ / name);
    run.model.encoder_layers = run.model.decoder_layers = 1;
    run.batch_source_tokens = 96;
    run.batch_target_tokens = 96;
    run.max_steps = steps;
    return run;
  }
  static TrainResult train_on(const ContextOptions& device, const TrainOptions& run) {
    Context context(device);
    const auto self = make_self_communicator();
    return train(context, *self, run, "test");
  }
  static std::vector<double> numbers_of(const TrainOptions& run, const char* name) {
    std::vector<double> found;
    std::ifstream file(run.model_dir + "/metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      const auto object = nlohmann::json::parse(line);
      if (object.contains(name)) found.push_back(object[name]);
    }
    return found;
  }

  /// Runs on both devices; options that are for the CPU.
  void expect_same_log(const TrainOptions& on_cpu) const {
    TrainOptions on_device = on_cpu;
    on_device.model_dir = runs_ / "cuda";
    train_on({}, on_cpu);
    train_on(training_cuda(), on_device);
    for (const char* name : {"loss", "nll", "gradient_norm", "learning_rate", "valid_loss"}) {
      const std::vector<double> expected = numbers_of(on_cpu, name);
      const std::vector<double> got = numbers_of(on_device, name);
      ASSERT_EQ(got.size(), expected.size()) << name;
      ASSERT_FALSE(got.empty()) << name;
      for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-4 * expected[i]) << name;
    }
  }

  TemporaryFolder runs_;
};

TEST_F(CudaTraining, LossAndNormOfEveryStepAreThoseOfTheCpu) {
  TrainOptions on_cpu = options("cpu", 4);
  on_cpu.model.encoder_layers = on_cpu.model.decoder_layers = 2;
  on_cpu.model.activation_dropout = 0.2F;
  on_cpu.clip_norm = 1.0;
  on_cpu.weight_decay = 0.1;
  on_cpu.valid_every = 4;
  on_cpu.valid_beam_size = 0;
  on_cpu.valid_metric = "loss";
  expect_same_log(on_cpu);
}

TEST_F(CudaTraining, ReplayedStepsHaveTheBitsOfStepsGivenAnew) {
  const TrainOptions captured = options("captured", 5);
  TrainOptions anew = options("anew", 5);
  anew.no_cuda_graph = true;
  const LoadedState got(train_on(training_cuda(), captured).last_checkpoint, captured.model, kTinyVocabulary);
  const LoadedState expected(train_on(training_cuda(), anew).last_checkpoint, anew.model, kTinyVocabulary);
  EXPECT_TRUE(got.values == expected.values);
  EXPECT_TRUE(got.m == expected.m);
  EXPECT_TRUE(got.v == expected.v);
  EXPECT_EQ(numbers_of(captured, "loss"), numbers_of(anew, "loss"));
}

TEST_F(CudaTraining, StepsThatComputeLayersAgainHaveTheSameBits) {
  TrainOptions kept = options("kept", 4);
  kept.model.encoder_layers = kept.model.decoder_layers = 2;
  kept.precision = Precision::kBF16;
  TrainOptions again = kept;
  again.model_dir = runs_ / "again";
  again.recompute = true;
  const LoadedState expected(train_on(training_cuda(), kept).last_checkpoint, kept.model, kTinyVocabulary);
  const LoadedState got(train_on(training_cuda(), again).last_checkpoint, again.model, kTinyVocabulary);
  EXPECT_TRUE(got.values == expected.values);
  EXPECT_EQ(numbers_of(again, "loss"), numbers_of(kept, "loss"));
}

TEST_F(CudaTraining, StepsOfSeveralMicroBatchesHaveOneOutcomeHoweverTheyAreGiven) {
  TrainOptions captured = options("captured", 4);
  captured.logical_shards = 3;
  captured.clip_norm = 0.5;
  TrainOptions anew = captured;
  anew.model_dir = runs_ / "anew";
  anew.no_cuda_graph = true;
  anew.log_every = 3;  // when the host reads makes no difference
  const LoadedState got(train_on(training_cuda(), captured).last_checkpoint, captured.model, kTinyVocabulary);
  const LoadedState expected(train_on(training_cuda(), anew).last_checkpoint, anew.model, kTinyVocabulary);
  EXPECT_TRUE(got.values == expected.values);
  EXPECT_TRUE(got.v == expected.v);
  const std::vector<double> losses = numbers_of(captured, "loss");
  const std::vector<double> means = numbers_of(anew, "loss");
  ASSERT_EQ(losses.size(), 4U);
  ASSERT_EQ(means.size(), 2U);
  EXPECT_NEAR(means[0], (losses[0] + losses[1] + losses[2]) / 3, 0.05 * means[0]);
  EXPECT_EQ(means[1], losses[3]);
  EXPECT_EQ(numbers_of(captured, "gradient_norm").back(), numbers_of(anew, "gradient_norm").back());
}

}  // namespace
}  // namespace ventris
