// SPDX-License-Identifier: Apache-2.0
#include "trainer/train.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "backend/device/error.h"
#include "data/corpus.h"
#include "data/io/json_text.h"
#include "tests/trainer/small_model.h"
#include "tests/trainer/training_fixture.h"
#include "trainer/checkpoint/run_folder.h"
#include "trainer/run.h"
#include "trainer/signals.h"

namespace ventris {
namespace {

using testing::kTinyVocabulary;
using testing::LoadedState;
using testing::metrics_of;
using testing::TemporaryFolder;
using testing::tiny_corpus;
using testing::tiny_run_options;
using testing::train_alone;

LoadedState state_of(const std::string& path, const TrainOptions& options) {
  return {path, options.model, kTinyVocabulary};
}

template <typename Call>
std::string message_of(ExitCode code, const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

class TrainTest : public ::testing::Test {
 protected:
  TrainOptions options(const std::string& name) const {
    return tiny_run_options(tiny_corpus(), runs_ / name);
  }

  TemporaryFolder runs_;
};

TEST_F(TrainTest, HoldsTheEmbeddingOfTheBeginMarkAtZeroWhereWanted) {
  for (const bool zero : {false, true}) {
    TrainOptions options = this->options(zero ? "zero" : "learned");
    options.begin_embedding = zero ? "zero" : "learned";
    options.max_steps = 3;
    options.precision = Precision::kBF16;
    const TrainResult result = train_alone(options);
    if (zero) options.model.zero_token = 1;
    const LoadedState state = state_of(result.last_checkpoint, options);
    const LogicalParameter* embedding = state.store.find("embedding");
    const Tensor rows = state.store.logical_value(*embedding);
    for (int64_t word = 0; word < rows.rows; ++word) {
      const float* row = rows.row<float>(word);
      const bool all_zero = std::all_of(row, row + rows.cols, [](float x) { return x == 0.0F; });
      EXPECT_EQ(all_zero, zero && word == 1) << word;
    }
  }
}

TEST_F(TrainTest, DamagedCheckpointsOfEarlierStartsAreRemovedWhenAnotherIsSetAside) {
  TrainOptions run = options("run");
  run.save_every = 4;
  run.keep_checkpoints = 3;
  run.max_steps = 12;
  train_alone(run);
  const auto damage_and_go_on = [&](int64_t step) {
    for (const std::string& path : list_checkpoints(run.model_dir)) {
      if (step_of_checkpoint(path) >= step) std::filesystem::resize_file(path, 5000);
    }
    train_alone(run);
  };
  const auto is_set_aside = [&](int64_t step) {
    return std::filesystem::exists(path_of_checkpoint(run.model_dir, step) + ".damaged");
  };
  damage_and_go_on(8);
  EXPECT_TRUE(is_set_aside(8));
  EXPECT_TRUE(is_set_aside(12));
  damage_and_go_on(12);
  EXPECT_FALSE(is_set_aside(8));
  EXPECT_TRUE(is_set_aside(12));
}

TEST_F(TrainTest, WhereNoCheckpointIsSoundTheRunIsRefusedAndNothingIsOverwritten) {
  TrainOptions run = options("run");
  run.save_every = 4;
  run.max_steps = 8;
  train_alone(run);
  for (const std::string& path : list_checkpoints(run.model_dir)) std::filesystem::resize_file(path, 5000);
  const std::string message = message_of(ExitCode::kBadData, [&] { train_alone(run); });
  EXPECT_NE(message.find("no checkpoint of " + run.model_dir + " can be read"), std::string::npos) << message;
  EXPECT_NE(message.find("checkpoint-00000004.h5"), std::string::npos) << message;
  for (const char* step : {"00000004", "00000008"}) {
    EXPECT_TRUE(std::filesystem::exists(fmt::format("{}/checkpoint-{}.h5.damaged", run.model_dir, step)));
  }
  const std::string again = message_of(ExitCode::kBadData, [&] { train_alone(run); });
  EXPECT_NE(again.find("only damaged checkpoints of an earlier run"), std::string::npos) << again;
}

/// Writes the state of a checkpoint again, as that of another step and with one thing changed.
template <typename Change>
std::string write_changed(const std::string& checkpoint, const TrainOptions& run, int64_t step,
                          const Change& change) {
  LoadedState loaded = state_of(checkpoint, run);
  change(loaded);
  loaded.state.step = step;
  Context context(ContextOptions{});
  const auto flat = [](std::vector<float>& data) {
    const auto size = static_cast<int64_t>(data.size());
    return Tensor{data.data(), 1, size, size, DType::kF32};
  };
  TransformerConfig config = run.model;
  config.vocab_size = kTinyVocabulary;
  return save_checkpoint(context, run.model_dir, loaded.state, config, loaded.store,
                         {.m = flat(loaded.m), .v = flat(loaded.v)},
                         data::Corpus(run.corpus).tokenizers().models(), "a test");
}

TEST_F(TrainTest, CheckpointsOfAnUnsoundStateArePassedOverByName) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const size_t in_arrays = 4;  // of the first: found when the arrays are read
  const std::pair<const char*, std::function<void(LoadedState&)>> faults[] = {
      {"NaN or Inf in parameter ", [](LoadedState& of) { of.store.values().as<float>()[0] = kInf; }},
      {"NaN or Inf in /adam/m", [](LoadedState& of) { of.m[3] = std::nanf(""); }},
      {"NaN or Inf in /adam/v", [](LoadedState& of) { of.v.back() = -kInf; }},
      {"a negative number in /adam/v", [](LoadedState& of) { of.v.back() = -1e-3F; }},
      {"-1 in epoch_index", [](LoadedState& of) { of.state.position.index = -1; }},
      {"9007199254740993 in target_tokens",
       [](LoadedState& of) { of.state.target_tokens = (int64_t{1} << 53) + 1; }},
      {"skipped_steps 100 at step", [](LoadedState& of) { of.state.skipped_steps = 100; }},
      {"best_step 99 at step", [](LoadedState& of) { of.state.best_step = 99; }},
      {"a negative number in elapsed_seconds", [](LoadedState& of) { of.state.elapsed_seconds = -1.0; }},
      {"NaN or Inf in elapsed_seconds", [](LoadedState& of) { of.state.elapsed_seconds = std::nan(""); }},
      {"NaN or Inf in best_metric", [](LoadedState& of) { of.state.best_metric = kInf; }}};
  TrainOptions run = options("run");
  run.save_every = 4;
  const TrainResult whole = train_alone(run);
  const LoadedState expected = state_of(whole.last_checkpoint, run);
  const std::string sound = path_of_checkpoint(run.model_dir, 4);
  int64_t step = 4;
  for (const auto& [place, change] : faults) {
    for (const std::string& later : list_checkpoints(run.model_dir)) {
      if (later != sound) std::filesystem::remove(later);
    }
    const std::string bad = write_changed(sound, run, ++step, change);
    TrainOptions given = run;
    given.resume = bad;
    std::string message = message_of(ExitCode::kBadData, [&] { train_alone(given); });
    EXPECT_NE(message.find(bad), std::string::npos) << message;
    EXPECT_NE(message.find(place), std::string::npos) << message;
    ::testing::internal::CaptureStderr();
    if (step < 5 + static_cast<int64_t>(in_arrays))
      message_of(ExitCode::kUnavailable, [&] { train_alone(run); });
    const TrainResult again = train_alone(run);
    message = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(message.find(fmt::format("{}: there is {}", bad, place)), std::string::npos) << message;
    EXPECT_NE(message.find("resuming from " + sound), std::string::npos) << message;
    EXPECT_EQ(again.step, whole.step);
    EXPECT_TRUE(state_of(again.last_checkpoint, run).values == expected.values);
    EXPECT_TRUE(std::filesystem::exists(sound));
  }
}

TEST_F(TrainTest, AnUnsoundCheckpointThatCannotBePassedOverEndsTheRunForGood) {
  TrainOptions run = options("run");
  run.max_steps = 4;
  const std::string sound = train_alone(run).last_checkpoint;
  const std::string bad = write_changed(sound, run, 5, [](LoadedState& of) { of.m[3] = std::nanf(""); });
  std::filesystem::create_directories(bad + ".damaged/so-that-it-cannot-be-renamed");
  const std::string stays = message_of(ExitCode::kIo, [&] { train_alone(run); });
  EXPECT_NE(stays.find(bad + " cannot be resumed from"), std::string::npos) << stays;
  EXPECT_NE(stays.find("Move it out of the folder"), std::string::npos) << stays;
  std::filesystem::remove_all(bad + ".damaged");
  std::filesystem::remove(sound);
  for (const char* says : {"there is no earlier checkpoint", "only damaged checkpoints"}) {
    const std::string message = message_of(ExitCode::kBadData, [&] { train_alone(run); });
    EXPECT_NE(message.find(says), std::string::npos) << message;
  }
}

TEST_F(TrainTest, AStateThatIsNotFiniteEndsTheRunBeforeItIsSaved) {
  TrainOptions run = options("run");
  run.max_steps = 4;
  const std::string sound = train_alone(run).last_checkpoint;
  const std::string huge =
      write_changed(sound, run, 5, [](LoadedState& of) { std::fill(of.m.begin(), of.m.end(), 3e38F); });
  run.max_steps = 12;
  for (const int save_every : {1, 0}) {  // before and after the loss tells
    run.save_every = save_every;
    for (int start = 0; start < 2; ++start) {
      const std::string message = message_of(ExitCode::kDiverged, [&] { train_alone(run); });
      EXPECT_NE(message.find("The last checkpoint is " + huge), std::string::npos) << message;
      EXPECT_EQ(list_checkpoints(run.model_dir), (std::vector<std::string>{sound, huge}));
    }
  }
  run.model_dir = runs_ / "anew";
  run.initial_model = huge;
  run.initial_optimizer = "keep";
  run.save_every = 1;
  const std::string message = message_of(ExitCode::kDiverged, [&] { train_alone(run); });
  EXPECT_NE(message.find("No checkpoint was saved"), std::string::npos) << message;
}

TEST_F(TrainTest, ABestThatCannotBeReadIsToldAtTheStart) {
  TrainOptions run = options("run");
  run.max_steps = 4;
  train_alone(run);
  const std::string best = run.model_dir + "/best.json";
  std::ofstream(best) << "{}";
  run.max_steps = 8;
  const std::string message = message_of(ExitCode::kBadData, [&] { train_alone(run); });
  EXPECT_NE(message.find(best), std::string::npos) << message;
  EXPECT_EQ(metrics_of(run).back()["step"], 4);
  std::filesystem::remove(best);
  ASSERT_EQ(::mkfifo(best.c_str(), 0600), 0);  // nobody writes into it
  EXPECT_NE(message_of(ExitCode::kBadData, [&] { train_alone(run); }).find(best), std::string::npos);
  std::filesystem::remove(best);
  EXPECT_EQ(train_alone(run).step, 8);
}

TEST_F(TrainTest, NaNsAreSkippedAndTenInARowEndTheRunWithTheirPlace) {
  TrainOptions run = options("run");
  run.learning_rate_scale = 1e6;
  run.warmup_steps = 1;
  run.weight_decay = 0.9;  // matrices grow by a factor of 2e5 and more in a step
  run.max_steps = 40;
  const std::string message = message_of(ExitCode::kDiverged, [&] { train_alone(run); });
  for (const char* part : {"10 steps in a row", "first seen in", "at step "}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << " is not in: " << message;
  }
  EXPECT_EQ(metrics_of(run, "place").size(), 10U);
  const auto lines = metrics_of(run, "learning_rate");
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines.back()["skipped_steps"], 9);
  for (const auto& line : lines) {
    for (const auto& [key, value] : line.items()) {
      const bool counts = key == "type" || key == "format" || value.is_number();
      EXPECT_TRUE(counts) << line;
    }
  }
}

TEST_F(TrainTest, EpochsAndMinutesEndARunToo) {
  TrainOptions run = options("epochs");
  run.max_steps = 1000;
  run.max_epochs = 1;
  const TrainResult result = train_alone(run);
  EXPECT_LT(result.step, 20);
  EXPECT_EQ(state_of(result.last_checkpoint, run).state.position.epoch, 1);
  TrainOptions short_run = options("minutes");
  short_run.max_minutes = 1e-9;
  EXPECT_EQ(train_alone(short_run).step, 1);
}

TEST_F(TrainTest, ASignalBeforeTheFirstStepStopsThereAndSaves) {
  const TrainOptions run = options("run");
  // In a process of its own, because the request stays.
  EXPECT_EXIT(
      {
        watch_stop_signals();
        ::kill(::getpid(), SIGTERM);
        while (!stop_requested()) std::this_thread::yield();
        const TrainResult result = train_alone(run);
        std::_Exit(result.end == TrainEnd::kStoppedOnRequest && result.step == 0 ? 42 : 1);
      },
      ::testing::ExitedWithCode(42), "");
  EXPECT_EQ(list_checkpoints(run.model_dir).size(), 1U);
  EXPECT_EQ(train_alone(run).step, 12);
}

}  // namespace
}  // namespace ventris
