// SPDX-License-Identifier: Apache-2.0
#include "trainer/checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include "backend/device/error.h"
#include "data/error.h"
#include "tests/trainer/small_model.h"
#include "trainer/checkpoint/run_folder.h"
#include "trainer/checkpoint/weights.h"

namespace ventris {
namespace {

using testing::cpu_context;
using testing::expect_failure;
using testing::flat_values;
using testing::small_config;
using testing::small_tokenizer_models;
using testing::SmallModel;

std::vector<float> ramp(int64_t size, float slope) {
  std::vector<float> values(static_cast<size_t>(size));
  for (size_t i = 0; i < values.size(); ++i) values[i] = slope * static_cast<float>(i);
  return values;
}

Tensor view(std::vector<float>& values) {
  const auto size = static_cast<int64_t>(values.size());
  return {values.data(), 1, size, size, DType::kF32};
}

TrainingState some_state() {
  TrainingState state;
  state.step = 12345;
  state.position = {3, 777};
  state.skipped_steps = 4;
  state.skipped_in_a_row = 2;
  state.target_tokens = 123456789012;
  state.elapsed_seconds = 0.1 + 0.2;
  state.best_metric = 27.300000000000001;
  state.best_step = 12000;
  state.best_due_metric = 27.1;
  state.best_due_step = 11000;
  state.validations_without_improvement = 1;
  state.corpus_digest = "0123abcd";
  state.resume_signature = "seed: 1\nbatch: 4096\n";
  return state;
}

class CheckpointFile : public testing::FolderTest {
 protected:
  std::string save(const SmallModel& model, const TrainingState& state) {
    std::vector<float> m = ramp(model.store.flat_size(), 0.5F);
    std::vector<float> v = ramp(model.store.flat_size(), 0.25F);
    return save_checkpoint(cpu_context(), folder_.string(), state, model.config, model.store,
                           {.m = view(m), .v = view(v)}, small_tokenizer_models(), "a test");
  }
  std::string save_at(int64_t step) {
    TrainingState state;
    state.step = step;
    return save(SmallModel(small_config()), state);
  }
};

TEST_F(CheckpointFile, GivesBackParametersMomentsAndStateExactly) {
  const SmallModel model(small_config(), 8);
  const TrainingState state = some_state();
  const std::string file = save(model, state);
  EXPECT_EQ(file, path("checkpoint-00012345.h5"));
  SmallModel read(small_config(), 9);
  const int64_t size = read.store.flat_size();
  std::vector<float> m(static_cast<size_t>(size)), v(static_cast<size_t>(size));
  TrainingState got;
  load_checkpoint(cpu_context(), data::Hdf5Reader(file), read.config, read.store,
                  {.m = view(m), .v = view(v)}, got);
  EXPECT_EQ(flat_values(read.store), flat_values(model.store));
  EXPECT_EQ(m, ramp(size, 0.5F));
  EXPECT_EQ(v, ramp(size, 0.25F));
  const auto numbers = [](const TrainingState& of) {
    std::vector<double> all;
    for_each_number(of, [&](const char*, auto number) { all.push_back(static_cast<double>(number)); });
    return all;
  };
  EXPECT_EQ(numbers(got), numbers(state));
  EXPECT_EQ(got.corpus_digest, state.corpus_digest);
  EXPECT_EQ(got.resume_signature, state.resume_signature);
}

TEST_F(CheckpointFile, MayBeLoadedWithAnotherDropout) {
  const std::string file = save(SmallModel(small_config(), 8), some_state());
  TransformerConfig config = small_config();
  config.dropout = 0.37F;
  config.label_smoothing = 0.0F;
  SmallModel read(config);
  std::vector<float> m(static_cast<size_t>(read.store.flat_size())), v = m;
  TrainingState state;
  load_checkpoint(cpu_context(), data::Hdf5Reader(file), config, read.store, {.m = view(m), .v = view(v)},
                  state);
  EXPECT_EQ(state.step, 12345);
}

TEST_F(CheckpointFile, RefusesAnotherNetworkNamingTheDifference) {
  const std::string file = save(SmallModel(small_config(), 8), some_state());
  TransformerConfig config = small_config();
  config.heads = 4;
  SmallModel read(config, 9);
  std::vector<float> m(static_cast<size_t>(read.store.flat_size())), v = m;
  const std::vector<float> before = flat_values(read.store);
  TrainingState state;
  expect_failure<Error>(
      [&] {
        load_checkpoint(cpu_context(), data::Hdf5Reader(file), config, read.store,
                        {.m = view(m), .v = view(v)}, state);
      },
      ExitCode::kBadData, {file, "heads 2, not 4"});
  EXPECT_EQ(flat_values(read.store), before);
  EXPECT_EQ(state.step, 0);
}

TEST_F(CheckpointFile, RefusesAWeightsFile) {
  SmallModel model(small_config());
  save_weights(cpu_context(), path("weights.h5"), model.config, model.store, small_tokenizer_models(), "");
  std::vector<float> m(static_cast<size_t>(model.store.flat_size())), v = m;
  TrainingState state;
  expect_failure<Error>(
      [&] {
        load_checkpoint(cpu_context(), data::Hdf5Reader(path("weights.h5")), model.config, model.store,
                        {.m = view(m), .v = view(v)}, state);
      },
      ExitCode::kBadData, {path("weights.h5"), "is a weights file"});
}

TEST_F(CheckpointFile, AreListedByStepAndNothingElseIs) {
  EXPECT_TRUE(list_checkpoints(path("none")).empty());
  EXPECT_TRUE(list_checkpoints(folder_.string()).empty());
  const std::string later = save_at(100000000);
  const std::string second = save_at(2000);
  const std::string first = save_at(10);
  for (const char* name :
       {"checkpoint-00000007.h5.tmp.12", "weights.h5", "checkpoint-x.h5", "checkpoint-1.h5"}) {
    write(path(name), "x");
  }
  EXPECT_EQ(list_checkpoints(folder_.string()), (std::vector<std::string>{first, second, later}));
}

TEST_F(CheckpointFile, TheBestIsRememberedByTheFolder) {
  EXPECT_EQ(read_best(folder_.string()), "");
  write_best(folder_.string(),
             {.checkpoint = path("checkpoint-00000003.h5"), .metric = "loss", .value = 1.25});
  EXPECT_EQ(read_best(folder_.string()), path("checkpoint-00000003.h5"));
  write_best(folder_.string(),
             {.checkpoint = path("checkpoint-00000005.h5"), .metric = "loss", .value = 1.0});
  EXPECT_EQ(read_best(folder_.string()), path("checkpoint-00000005.h5"));
  std::filesystem::create_directories(path("sub"));
  std::filesystem::rename(path("best.json"), path("sub/best.json"));
  EXPECT_EQ(read_best(path("sub")), path("sub/checkpoint-00000005.h5"));  // a moved run stays whole
  for (const char* text : {"{", "[]", "{\"checkpoint\": 3}", "{\"checkpoint\": \"../../etc/passwd\"}", ""}) {
    write(path("best.json"), text);
    expect_failure<Error>([&] { read_best(folder_.string()); }, ExitCode::kBadData, {path("best.json")});
  }
}

TEST_F(CheckpointFile, ABestThatCannotBeReadIsNotTakenForNone) {
  std::filesystem::create_directories(path("best.json"));  // can be opened, but not read
  const auto prune = [&] { prune_checkpoints(folder_.string(), 1); };
  expect_failure<Error>(prune, ExitCode::kIo, {path("best.json"), "Is a directory"});
}

}  // namespace
}  // namespace ventris
