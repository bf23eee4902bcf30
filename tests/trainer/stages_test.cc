// SPDX-License-Identifier: Apache-2.0
#include "trainer/stages.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "backend/device/error.h"
#include "data/corpus.h"
#include "data/error.h"
#include "data/mix_plan.h"
#include "tests/support/mixed_corpus.h"
#include "tests/trainer/training_fixture.h"
#include "trainer/checkpoint/mix_state.h"
#include "trainer/checkpoint/run_folder.h"

namespace ventris {
namespace {

using testing::kTinyVocabulary;
using testing::LoadedState;
using testing::TemporaryFolder;
using testing::train_alone;

constexpr const char* kPlan = "warm: bt 1 until 3 steps\nboth: clean 1 bt 2 until clean 1\nend: clean 1\n";

const std::string& mixed_corpus() {
  static const TemporaryFolder folder;
  static const std::string path = testing::make_mixed_corpus(testing::tiny_corpus(), folder / "mixed.h5");
  return path;
}

template <typename Call>
std::string refusal_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadConfiguration) << error.what();
    return error.what();
  } catch (const data::DataError& error) {
    EXPECT_EQ(error.kind(), data::ErrorKind::kBadConfiguration) << error.what();
    return error.what();
  }
  return "accepted";
}

class StagesTest : public ::testing::Test {
 protected:
  TrainOptions options(const std::string& name, const std::string& plan) const {
    TrainOptions run = testing::tiny_run_options(mixed_corpus(), runs_ / name);
    run.mix = plan;
    return run;
  }
  LoadedState last_state(const TrainOptions& run) const {
    return {list_checkpoints(run.model_dir).back(), run.model, kTinyVocabulary};
  }

  TemporaryFolder runs_;
};

TEST_F(StagesTest, TheEndOfTheLastStageIsTheEndOfTraining) {
  TrainOptions run = options("short", "clean 1 until 2 steps\nbt 1 until 3 steps\n");
  const TrainResult result = train_alone(run);
  EXPECT_EQ(result.end, TrainEnd::kDone);
  EXPECT_EQ(result.step, 5);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(train_alone(run).step, 5);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("has all stages of its plan"), std::string::npos);
  run.mix = "clean 1 until 2 steps\nbt 1 until 3 steps\nclean 1 bt 1 until 4 steps\n";
  EXPECT_EQ(train_alone(run).step, 9);  // a stage was added
}

/// A run whose validations cannot get better: the learning rate changes nothing that counts.
class StalledStagesTest : public StagesTest {
 protected:
  TrainOptions stalling(const std::string& name) const {
    TrainOptions run =
        options(name, "warm: clean 1 until stalled 2\ncalm: clean 1 bt 1 until stalled 1\nend: bt 1\n");
    run.learning_rate_scale = 1e-12;
    run.valid_every = 2;
    run.valid_max_sentences = 1;
    run.valid_beam_size = 1;
    run.valid_metric = "bleu";
    run.max_steps = 12;
    return run;
  }
};

TEST_F(StalledStagesTest, StagesEndWhenValidationsStallAlsoInRunsThatResume) {
  TrainOptions run = stalling("whole");
  train_alone(run);
  const LoadedState whole = last_state(run);
  // Step 2 is the best; 4 and 6 are not better. Step 8 is the first validation of the second stage.
  EXPECT_EQ(whole.state.mix.ended, (std::vector<EndedStage>{{"warm", 6}, {"calm", 8}}));
  EXPECT_EQ(whole.state.validations_without_improvement, 2);
  for (int64_t step = 3; step <= 9; ++step) {
    TrainOptions parts = stalling(fmt::format("parts-{}", step));
    parts.valid_every = 2;
    parts.save_every = 1;
    parts.max_steps = step;
    train_alone(parts);
    parts.max_steps = run.max_steps;
    // The best: whether its file is still there changes nothing that follows.
    if (step % 2 == 1) std::filesystem::remove(path_of_checkpoint(parts.model_dir, 2));
    train_alone(parts);
    const LoadedState again = last_state(parts);
    EXPECT_TRUE(again.values == whole.values) << step;
    EXPECT_EQ(again.state.mix, whole.state.mix) << step;
    EXPECT_EQ(again.state.position, whole.state.position) << step;
    EXPECT_EQ(again.state.validations_without_improvement, 2) << step;
  }
}

TEST_F(StalledStagesTest, AStageThatHasEndedNeedsNoValidationsAnyMore) {
  TrainOptions run = stalling("run");
  run.max_steps = 7;
  train_alone(run);  // is in the second stage
  run.max_steps = 9;
  run.valid_every = 0;
  EXPECT_NE(refusal_of([&] { train_alone(run); }).find("stage calm lasts until stalled 1, but"),
            std::string::npos);
  run.mix = "warm: clean 1 until stalled 2\ncalm: clean 1 bt 1\n";
  EXPECT_EQ(refusal_of([&] { train_alone(run); }), "accepted");
}

TEST_F(StagesTest, OnlyEndsAndLaterStagesMayChange) {
  TrainOptions run = options("run", kPlan);
  run.max_steps = 4;
  train_alone(run);
  run.max_steps = 5;
  const auto with = [&](const std::string& plan) {
    TrainOptions other = run;
    other.mix = plan;
    return refusal_of([&] { train_alone(other); });
  };
  EXPECT_NE(
      with("warm: bt 1 until 3 steps\nboth: clean 1 bt 3 until clean 1\nend: clean 1")
          .find("is in stage 2 of its plan, whose stage 2 is 'both: clean 1 bt 2 until clean 1'; in that "
                "of --mix it is 'both: clean 1 bt 3 until clean 1'"),
      std::string::npos);
  EXPECT_NE(with("warm: clean 1 until 3 steps\nboth: clean 1 bt 2").find("whose stage 1 is"),
            std::string::npos);
  EXPECT_NE(with("warm: bt 1")
                .find("whose stage 2 is 'both: clean 1 bt 2 until clean 1'; in that of --mix it "
                      "is none"),
            std::string::npos);
  EXPECT_EQ(with("warm: bt 1 until 9 steps\nboth: clean 1 bt 2 until 7 steps\nlater: bt 1"), "accepted");
  EXPECT_EQ(last_state(run).state.mix.plan,
            "warm: bt 1 until 9 steps\nboth: clean 1 bt 2 until 7 steps\nlater: bt 1\n");
  EXPECT_EQ(plan_as_it_was(last_state(run).state.mix).stages[0].end,
            (data::StageEnd{data::StageEnd::Kind::kSteps, 3}));
}

TEST_F(StagesTest, PlansThatTheRunCannotFollowAreRefused) {
  const data::Corpus corpus(mixed_corpus());
  const auto with = [&](const std::string& plan, int64_t valid_every, int patience) {
    TrainOptions run = options("any", plan);
    run.valid_every = valid_every;
    run.patience = patience;
    return refusal_of([&] { resolved_mix(run, {}, corpus); });
  };
  EXPECT_NE(with("a: clean 1 until stalled 2", 0, 0)
                .find("stage a lasts until stalled 2, but the run has no "
                      "validations: --valid-every is 0"),
            std::string::npos);
  EXPECT_NE(with("a: clean 1 until stalled 4", 1, 3).find("--patience 3 ends training before"),
            std::string::npos);
  EXPECT_EQ(with("a: clean 1 until stalled 3", 1, 3), "accepted");
  EXPECT_NE(with("a: dirty 1", 1, 0).find("its corpora are clean, bt"), std::string::npos);
}

TEST(MixStateTest, ItsTextGivesTheStateAgain) {
  const MixState mix{.plan = kPlan, .ended = {{"warm", 3}}};
  const data::MixPosition position{.stage = 1, .steps = 2, .draws = 70, .before = {0, 120}};
  MixState again;
  data::MixPosition there;
  read_mix_json(mix_json(mix, position), "test", again, there);
  EXPECT_EQ(again, mix);
  EXPECT_EQ(there, position);
  EXPECT_EQ(mix_json({}, {}), "");
}

TEST(MixStateTest, WhatTrainingCannotWriteIsRefused) {
  const std::string good = mix_json({.plan = kPlan, .ended = {{"warm", 3}}},
                                    {.stage = 1, .steps = 2, .draws = 70, .before = {0, 120}});
  const std::pair<const char*, const char*> changes[] = {{"\"stage\":1", "\"stage\":2"},
                                                         {"\"stage\":1", "\"stage\":-1"},
                                                         {"\"steps\":2", "\"steps\":\"2\""},
                                                         {"\"draws\":70", "\"d\":70"},
                                                         {"[0,120]", "[0,-120]"},
                                                         {"[0,120]", "7"},
                                                         {"\"stage\":\"warm\"", "\"stage\":\"end\""},
                                                         {"\"step\":3", "\"step\":1e300"},
                                                         {"until 3 steps", "until 3"},
                                                         {"{", ""}};
  for (const auto& [from, to] : changes) {
    std::string text = good;
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, std::string(from).size(), to);
    MixState mix;
    data::MixPosition position;
    try {
      read_mix_json(text, "checkpoint.h5", mix, position);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadData);
      EXPECT_NE(std::string(error.what()).find("checkpoint.h5"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace ventris
