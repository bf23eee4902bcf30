// SPDX-License-Identifier: Apache-2.0
// Training runs on the emulated CUDA device beside the same runs on the CPU.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "backend/step_graph.h"
#include "tests/support/tiny_run.h"
#include "tests/support/weighted_corpus.h"
#include "trainer/files/weights.h"
#include "trainer/inference/translation.h"

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
  on_cpu.model.dropout_source = on_cpu.model.dropout_target = 0.1F;
  on_cpu.clip_norm = 1.0;
  on_cpu.weight_decay = 0.1;
  on_cpu.valid_every = 4;
  on_cpu.valid_beam_size = 0;
  on_cpu.valid_metric = "loss";
  expect_same_log(on_cpu);
}

TEST_F(CudaTraining, LossAndNormOfWeightedPairsAreThoseOfTheCpu) {
  TrainOptions on_cpu = options("cpu", 2);
  on_cpu.corpus =
      testing::write_weighted_corpus(testing::tiny_corpus(), runs_ / "weighted.h5",
                                     [](int64_t pair) { return 0.7F * static_cast<float>(pair % 4); });
  on_cpu.valid_every = 2;
  on_cpu.valid_beam_size = 0;
  on_cpu.valid_metric = "loss";
  expect_same_log(on_cpu);
}

TEST_F(CudaTraining, AnInterruptedRunComesToTheSameBits) {
  TrainOptions whole = options("whole", 4);
  whole.precision = Precision::kBF16;
  const LoadedState expected(train_on(training_cuda(), whole).last_checkpoint, whole.model, kTinyVocabulary);
  TrainOptions parts = whole;
  parts.model_dir = runs_ / "parts";
  parts.max_steps = 2;
  train_on(training_cuda(), parts);
  parts.max_steps = 4;
  const LoadedState got(train_on(training_cuda(), parts).last_checkpoint, parts.model, kTinyVocabulary);
  EXPECT_TRUE(got.values == expected.values);
  EXPECT_TRUE(got.m == expected.m);
  EXPECT_TRUE(got.v == expected.v);
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

/// Updates on the device, captured from the second one on, of a model whose gradients the test writes.
struct DeviceUpdates {
  DeviceUpdates() {
    config.encoder_layers = config.decoder_layers = 1;
    config.d_model = 16;
    config.d_ff = 32;
    config.heads = 2;
    config.vocab_size = 40;
    config.max_positions = 16;
    declare_transformer(config, store);
    store.allocate(Device::kCuda, DType::kF32, /*gradients=*/true);
    store.initialize(context, 1);
    optimizer.emplace(context, store, TrainOptions{});
  }
  StepReport update(const std::vector<float>& gradients, double loss = 1.0) {
    const double losses[2] = {loss, loss};
    copy_to_device(context, sums.data, losses, sizeof(losses));
    copy_to_device(context, store.gradients().data, gradients.data(), gradients.size() * sizeof(float));
    optimizer->set_learning_rate(0.01);
    graph.run([&] { optimizer->update(sums, *self); });
    HostBuffer buffer(context, sizeof(StepReport));
    optimizer->receive_report(buffer);
    buffer.wait_until_done();
    StepReport report;
    std::memcpy(&report, buffer.data(), sizeof(report));
    return report;
  }
  std::vector<float> numbers(Tensor flat) {
    std::vector<float> found(static_cast<size_t>(flat.cols));
    copy_to_host(context, found.data(), flat.data, found.size() * sizeof(float));
    return found;
  }
  std::vector<float> gradients(float value) const {
    return std::vector<float>(static_cast<size_t>(store.flat_size()), value);
  }

  const std::unique_ptr<Communicator> self = make_self_communicator();
  Context context{training_cuda()};
  TransformerConfig config;
  ParameterStore store;
  std::optional<Optimizer> optimizer;
  Arena memory{Device::kCuda, 256};
  Tensor sums = memory.allocate(1, 2, DType::kF64);
  StepGraph graph{context, /*capture=*/true};
};

TEST(CudaOptimizer, ASkippedStepChangesNothingAndIsNamedOnTheDevice) {
  DeviceUpdates with;
  DeviceUpdates without;
  for (DeviceUpdates* updates : {&with, &without}) updates->update(updates->gradients(0.5F));
  std::vector<float> bad = with.gradients(0.25F);
  const LogicalParameter& first = with.store.logical().front();
  bad[static_cast<size_t>(with.store.offset(first.tensor))] = INFINITY;
  for (int i = 0; i < 3; ++i) {
    const StepReport report = with.update(bad);
    EXPECT_EQ(report.outcome.skipped, 1);
    EXPECT_EQ(report.outcome.updates, 1);
    EXPECT_EQ(describe_not_finite(with.store, report.not_finite), "the gradient of " + first.name);
  }
  const StepReport of_loss = with.update(with.gradients(0.25F), NAN);
  EXPECT_EQ(of_loss.outcome.skipped, 1);
  EXPECT_EQ(describe_not_finite(with.store, of_loss.not_finite), "the loss");
  EXPECT_TRUE(with.numbers(with.store.gradients()) == with.gradients(0.0F));
  for (DeviceUpdates* updates : {&with, &without}) {
    const StepReport report = updates->update(updates->gradients(-0.25F));
    EXPECT_EQ(report.outcome.skipped, 0);
    EXPECT_EQ(report.outcome.updates, 2);
    EXPECT_EQ(report.not_finite.last_gradient, -1);
  }
  EXPECT_TRUE(with.numbers(with.store.values()) == without.numbers(without.store.values()));
  EXPECT_TRUE(with.numbers(with.optimizer->state().m) == without.numbers(without.optimizer->state().m));
  EXPECT_TRUE(with.numbers(with.optimizer->state().v) == without.numbers(without.optimizer->state().v));
}

TEST_F(CudaTraining, AModelTrainedOnTheDeviceTranslatesAlikeOnBoth) {
  const std::string checkpoint = train_on(training_cuda(), options("run", 2)).last_checkpoint;
  const std::vector<std::string> lines = {testing::tiny_pair(3).first, "", testing::tiny_pair(8).first};
  const auto self = make_self_communicator();
  const auto translate_on = [&](const ContextOptions& device) {
    Context context(device);
    const ModelSet models(context, {checkpoint}, Packing::kF32);
    return Translator(context, *self, models, {.beam_size = 2, .max_extra_length = 2}).translate(lines);
  };
  const auto expected = translate_on({});
  const auto got = translate_on(training_cuda());
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(got[i].translations.at(0).text, expected[i].translations.at(0).text);
  }
}

TEST_F(CudaTraining, NaNsAreFoundAndNamed) {
  TrainOptions run = options("run", 20);
  run.learning_rate_scale = 1e38;
  try {
    train_on(training_cuda(), run);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kDiverged) << error.what();
    EXPECT_NE(std::string(error.what()).find("first seen in"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace ventris
