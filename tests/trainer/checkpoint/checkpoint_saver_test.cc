// SPDX-License-Identifier: Apache-2.0
#include "trainer/checkpoint/checkpoint_saver.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "backend/device/error.h"
#include "data/error.h"
#include "data/io/temporary_name.h"
#include "tests/trainer/small_model.h"
#include "trainer/checkpoint/run_folder.h"

namespace ventris {
namespace {

using testing::cpu_context;
using testing::expect_failure;
using testing::small_config;
using testing::small_tokenizer_models;
using testing::SmallModel;

class Saver : public testing::FolderTest {
 protected:
  Saver()
      : model_(small_config(), 3),
        m_(static_cast<size_t>(model_.store.flat_size())),
        v_(m_.size()),
        average_(m_.size()) {}

  CheckpointSaver make_saver(const std::string& folder, int keep = 2, bool with_average = false) {
    return CheckpointSaver(
        cpu_context(), model_.store, with_average,
        {.model_dir = folder, .config = model_.config, .tokenizers = small_tokenizer_models(), .keep = keep});
  }
  static Tensor flat(std::vector<float>& values) {
    const auto size = static_cast<int64_t>(values.size());
    return {values.data(), 1, size, size, DType::kF32};
  }
  OptimizerState optimizer() { return {.m = flat(m_), .v = flat(v_)}; }
  static TrainingState at(int64_t step) {
    TrainingState state;
    state.step = step;
    return state;
  }
  /// Fills everything that is saved with one number.
  void fill(float value) {
    std::fill_n(model_.store.values().as<float>(), model_.store.flat_size(), value);
    for (std::vector<float>* values : {&m_, &v_, &average_}) std::fill(values->begin(), values->end(), value);
  }
  /// Whether the checkpoint holds that number everywhere.
  bool holds(const std::string& file, float value) const {
    SmallModel read(model_.config);
    std::vector<float> m(m_.size()), v(m_.size());
    TrainingState state;
    load_checkpoint(cpu_context(), data::Hdf5Reader(file), read.config, read.store,
                    {.m = flat(m), .v = flat(v)}, state);
    const auto same = [&](float x) { return x == value; };
    return std::all_of(m.begin(), m.end(), same) && std::all_of(v.begin(), v.end(), same) &&
           std::all_of(read.store.logical().begin(), read.store.logical().end(), [&](const auto& parameter) {
             const Tensor block = read.store.logical_value(parameter);
             return *block.row<float>(0) == value &&
                    *(block.row<float>(block.rows - 1) + block.cols - 1) == value;
           });
  }

  SmallModel model_;
  std::vector<float> m_, v_, average_;
};

TEST_F(Saver, WritesWhatWasThereWhenItWasAskedWhileAllOfItChanges) {
  CheckpointSaver saver = make_saver(folder_.string(), /*keep=*/100);
  constexpr int kSaves = 20;
  std::vector<std::string> files;
  for (int i = 1; i <= kSaves; ++i) {
    fill(static_cast<float>(i));
    files.push_back(saver.save(at(i), optimizer(), "a test"));
    EXPECT_EQ(files.back(), path_of_checkpoint(folder_.string(), i));
    fill(-1.0F);  // training goes on
    saver.check();
  }
  saver.finish();
  EXPECT_EQ(saver.last_verified(), files.back());
  EXPECT_EQ(list_checkpoints(folder_.string()), files);
  for (int i = 1; i <= kSaves; ++i) {
    EXPECT_TRUE(holds(files[static_cast<size_t>(i - 1)], static_cast<float>(i))) << i;
  }
}

TEST_F(Saver, WritesTheSameBytesAsOneCallThatWaits) {
  CheckpointSaver saver = make_saver(folder_.string(), 2, /*with_average=*/true);
  const OptimizerState all = {.m = flat(m_), .v = flat(v_), .average = flat(average_)};
  fill(0.5F);
  const std::string file = saver.save(at(7), all, "a test");
  saver.finish();
  const std::string bytes = content(file);
  std::filesystem::create_directories(path("other"));
  const std::string other = save_checkpoint(cpu_context(), path("other"), at(7), model_.config, model_.store,
                                            all, small_tokenizer_models(), "a test");
  EXPECT_EQ(content(other), bytes);
}

TEST_F(Saver, KeepsTheNewestTwoAtLeastAndTheBest) {
  for (const int keep : {1, 2, 3}) {
    const std::string folder = path("keep" + std::to_string(keep));
    std::filesystem::create_directories(folder);
    CheckpointSaver saver = make_saver(folder, keep);
    std::vector<std::string> files;
    for (int64_t step = 1; step <= 6; ++step) {
      const bool is_best = step == 2;
      files.push_back(
          saver.save(at(step), optimizer(), "",
                     is_best ? std::optional(CheckpointSaver::Best{"bleu", 12.5}) : std::nullopt));
    }
    saver.finish();
    EXPECT_EQ(read_best(folder), files[1]);
    std::vector<std::string> expected = {files[1]};
    expected.insert(expected.end(), files.end() - std::max(keep, 2), files.end());
    EXPECT_EQ(list_checkpoints(folder), expected);
  }
}

TEST_F(Saver, AnUnsoundStateIsNotWrittenAndNothingIsRemovedForIt) {
  const float kInf = std::numeric_limits<float>::infinity();
  const auto last = static_cast<size_t>(model_.store.offset(model_.store.logical().back().tensor));
  const std::string& last_name = model_.store.logical_at(static_cast<int64_t>(last)).name;
  float* const values = model_.store.values().as<float>();
  const struct {
    float* value;
    float bad;
    std::string place;
  } faults[] = {{values, kInf, "NaN or Inf in /model, at " + model_.store.logical_at(0).name},
                {m_.data(), -kInf, "NaN or Inf in /adam/m, at " + model_.store.logical_at(0).name},
                {v_.data() + last, std::nanf(""), "NaN or Inf in /adam/v, at " + last_name},
                {v_.data(), -0.5F, "a negative number in /adam/v, at " + model_.store.logical_at(0).name},
                {average_.data() + last, kInf, "NaN or Inf in /ema, at " + last_name}};
  CheckpointSaver saver = make_saver(folder_.string(), /*keep=*/2, /*with_average=*/true);
  const OptimizerState all = {.m = flat(m_), .v = flat(v_), .average = flat(average_)};
  const auto save_bad = [&](int64_t step, const std::string& place, const std::string& last_checkpoint) {
    saver.save(at(step), all, "", CheckpointSaver::Best{"bleu", 99.0});
    expect_failure<Error>([&] { saver.finish(); }, ExitCode::kDiverged,
                          {fmt::format("after step {} ", step), place, last_checkpoint});
  };
  fill(0.5F);
  *faults[0].value = faults[0].bad;
  save_bad(1, faults[0].place, "No checkpoint was saved");
  fill(0.5F);
  std::vector<std::string> files;
  for (const int64_t step : {2, 3}) files.push_back(saver.save(at(step), all, ""));
  saver.finish();
  int64_t step = 4;
  for (const auto& fault : faults) {
    fill(0.5F);
    *fault.value = fault.bad;
    save_bad(step++, fault.place, "The last checkpoint is " + files.back());
    EXPECT_EQ(list_checkpoints(folder_.string()), files);
    EXPECT_EQ(read_best(folder_.string()), "");
    EXPECT_EQ(saver.last_verified(), files.back());
  }
}

TEST_F(Saver, ThrowsWhatWentWrongOnceAndCanGoOn) {
  const std::string folder = path("run");
  CheckpointSaver saver = make_saver(folder);
  const auto expect_refusal = [&](auto&& action) {
    expect_failure<data::DataError>(action, data::ErrorKind::kCannotCreate,
                                    {folder, "No such file or directory"});
  };
  saver.save(at(1), optimizer(), "");
  expect_refusal([&] { saver.finish(); });
  saver.finish();
  saver.save(at(2), optimizer(), "");
  expect_refusal([&] { saver.save(at(3), optimizer(), ""); });
  saver.save(at(3), optimizer(), "");
  expect_refusal([&] {
    while (true) {
      saver.check();
      std::this_thread::yield();
    }
  });
  EXPECT_EQ(saver.last_verified(), "");
  std::filesystem::create_directories(folder);
  const std::string file = saver.save(at(4), optimizer(), "");
  EXPECT_EQ(saver.last_verified(), file);
}

TEST_F(Saver, FilesOfProcessesThatAreGoneAreRemovedAndNoOthers) {
  // A process that was there and is not any more.
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);

  const std::string ours = data::temporary_name(path("checkpoint-00000002.h5"));
  const std::string of_it = std::to_string(child) + ".0123456789abcdef";
  const auto of_child = [&](const std::string& name) {
    const size_t random = name.rfind('.');
    return name.substr(0, name.rfind('.', random - 1) + 1) + of_it;
  };
  const std::string gone = of_child(ours);
  const std::string foreign_gone = of_child(data::temporary_name(path("notes.txt")));
  const std::string other_host = path("checkpoint-00000002.h5.tmp.another-host.") + of_it;
  const std::string other_host_old = path("checkpoint-00000003.h5.tmp.another-host.") + of_it;
  const std::string no_number = gone + "x";
  const std::string whole = path("checkpoint-00000002.h5");
  for (const std::string& file : {ours, gone, foreign_gone, other_host, other_host_old, no_number, whole}) {
    write(file, "x");
  }
  std::filesystem::last_write_time(other_host_old,
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(25));
  const auto remove = [&](bool alone) {
    std::vector<std::string> removed = data::remove_abandoned_files(
        folder_.string(), [](const std::string& name) { return step_of_checkpoint(name) >= 0; }, alone);
    std::sort(removed.begin(), removed.end());
    return removed;
  };
  const std::vector<std::string> removed = remove(/*alone=*/false);
  EXPECT_EQ(removed, (std::vector<std::string>{gone, other_host_old}));
  for (const std::string& file : {ours, foreign_gone, other_host, no_number, whole}) {
    EXPECT_TRUE(std::filesystem::exists(file)) << file;
  }
  for (const std::string& file : removed) EXPECT_FALSE(std::filesystem::exists(file)) << file;

  std::vector<std::string> others = {ours, other_host};
  std::sort(others.begin(), others.end());
  EXPECT_EQ(remove(/*alone=*/true), others);
  for (const std::string& file : {foreign_gone, no_number, whole}) {
    EXPECT_TRUE(std::filesystem::exists(file)) << file;
  }
}

}  // namespace
}  // namespace ventris
