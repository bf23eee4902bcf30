// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "backend/device/error.h"
#include "data/corpus.h"
#include "data/io/json_text.h"
#include "tests/comm/rank_test.h"
#include "tests/support/tiny_run.h"
#include "tests/support/tolerance.h"

namespace ventris {
namespace {

using testing::kTinyVocabulary;
using testing::LoadedState;
using testing::TemporaryFolder;
using testing::tiny_run_options;
using testing::world;

/// |a - b| / |b|, with Euclidean norms.
double relative_difference(ConstTensor a, ConstTensor b) {
  double difference = 0.0;
  double norm = 0.0;
  for (int64_t row = 0; row < b.rows; ++row) {
    for (int64_t col = 0; col < b.cols; ++col) {
      const double expected = b.row<float>(row)[col];
      difference += std::pow(a.row<float>(row)[col] - expected, 2);
      norm += std::pow(expected, 2);
    }
  }
  return difference == 0.0 ? 0.0 : std::sqrt(difference / norm);
}

/// A folder of rank 0 with a corpus, known to all ranks of this host.
class RanksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (world().rank() == 0) {
      folder_.emplace();
      testing::make_tiny_corpus(*folder_);
    }
    path_ = world().broadcast(folder_ ? *folder_ / "" : "", 0);
  }
  // No rank reads in the folder any more when it goes.
  void TearDown() override { world().barrier(); }

  TrainOptions options(const std::string& name) const {
    TrainOptions options = tiny_run_options(path_ + "corpus.h5", path_ + name);
    options.max_steps = 10;
    options.logical_shards = 4;
    return options;
  }
  TrainResult train_on_all(const TrainOptions& options) const {
    Context context({.threads = 1});
    return train(context, world(), options, "rank test");
  }
  std::vector<float> values_of(const TrainResult& result, const TrainOptions& options) const {
    return LoadedState(result.last_checkpoint, options.model, kTinyVocabulary).values;
  }

  /// The loss that metrics.jsonl has for a step.
  double loss_at(const TrainOptions& options, int64_t step) const {
    std::ifstream metrics(options.model_dir + "/metrics.jsonl");
    for (std::string line; std::getline(metrics, line);) {
      const auto object = data::read_json(line);
      if (object.at("step") == step && object.contains("loss")) return object.at("loss");
    }
    return std::nan("");
  }

  std::optional<TemporaryFolder> folder_;
  std::string path_;
};

TEST_F(RanksTest, AllRanksTogetherComeToTheParametersOfOneRankAfterTenSteps) {
  const TrainOptions together = options("together");
  const TrainResult result = train_on_all(together);
  EXPECT_EQ(result.step, 10);
  if (world().rank() == 0) {
    const TrainOptions alone = options("alone");
    Context context({.threads = 1});
    const auto self = make_self_communicator();
    const TrainResult other = train(context, *self, alone, "rank test");
    LoadedState expected(other.last_checkpoint, alone.model, kTinyVocabulary);
    LoadedState got(result.last_checkpoint, together.model, kTinyVocabulary);
    for (const LogicalParameter& parameter : expected.store.logical()) {
      EXPECT_LE(
          relative_difference(got.store.logical_value(parameter), expected.store.logical_value(parameter)),
          1e-5)
          << parameter.name;
    }
    EXPECT_EQ(got.state.target_tokens, expected.state.target_tokens);
  }
}

TEST_F(RanksTest, GradientsInBf16ComeToTheLossOfF32) {
  TrainOptions f32 = options("f32");
  TrainOptions bf16 = options("bf16");
  bf16.gradient_dtype = DType::kBF16;
  f32.max_steps = bf16.max_steps = 30;
  const TrainResult expected = train_on_all(f32);
  const TrainResult got = train_on_all(bf16);
  EXPECT_EQ(values_of(got, bf16) == values_of(expected, f32), world().size() == 1);
  if (world().rank() != 0) return;
  const double before = loss_at(f32, 1);
  const double reached = loss_at(f32, 30);
  EXPECT_LT(reached, 0.8 * before);
  EXPECT_TRUE(testing::close(loss_at(bf16, 30), reached, testing::tolerance_of(DType::kBF16)))
      << loss_at(bf16, 30) << " " << reached;
}

TEST_F(RanksTest, RanksWithOtherOptionsOrAnotherCorpusDoNotTrain) {
  if (world().size() == 1) GTEST_SKIP() << "one rank cannot disagree";
  TrainOptions run = options("run");
  const bool odd = world().rank() == 1;
  if (odd) run.warmup_steps = 77;
  try {
    train_on_all(run);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRanksDisagree);
    const std::string message = error.what();
    EXPECT_NE(message.find("warmup-steps"), std::string::npos) << message;
    EXPECT_NE(message.find("rank 1"), std::string::npos) << message;
    EXPECT_NE(message.find("77"), std::string::npos) << message;
  }
  world().barrier();
  const TemporaryFolder mine;
  run = options("run");
  if (odd) run.corpus = testing::make_tiny_corpus(mine, "other.h5", 190);
  try {
    train_on_all(run);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRanksDisagree);
    EXPECT_NE(std::string(error.what()).find("rank 1"), std::string::npos) << error.what();
  }
}

TEST_F(RanksTest, NaNsAreSkippedByAllRanksAndEndTheRunOnAll) {
  TrainOptions run = options("run");
  run.learning_rate_scale = 1e6;
  run.warmup_steps = 1;
  run.weight_decay = 0.9;  // matrices grow by a factor of 2e5 and more in a step
  run.max_steps = 40;
  try {
    train_on_all(run);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kDiverged);
    const auto messages = world().all_gather(error.what());
    for (const std::string& message : messages) EXPECT_EQ(message, messages[0]);
  }
}

}  // namespace
}  // namespace ventris
