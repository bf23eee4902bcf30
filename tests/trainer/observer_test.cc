// SPDX-License-Identifier: Apache-2.0
#include "trainer/observer.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/trainer/training_fixture.h"

namespace ventris {
namespace {

using testing::tiny_corpus;
using testing::tiny_run_options;

/// Notes what it is told, without the end of each step.
class Recorder final : public Observer {
 public:
  void on_start(const RunStart& start) override { note("start after", start.step); }
  void on_step(int64_t step) override { note("step", step); }
  void on_interval(const IntervalMetrics& metrics) override { note("interval", metrics.step); }
  void on_digest(const StepDigest& digest) override { note("digest", digest.step); }
  void on_validation(const ValidationMetrics& metrics) override {
    note(metrics.is_best ? "best" : "validation", metrics.step);
  }
  void on_save(const SavedCheckpoint& saved) override {
    EXPECT_TRUE(std::filesystem::exists(saved.path)) << saved.path;
    note("saved", saved.step);
  }
  void on_end(const RunEnd& end) override { note("end", end.step); }

  std::vector<std::string> notes;

 private:
  void note(const char* what, int64_t step) { notes.push_back(fmt::format("{} {}", what, step)); }
};

TEST(Observer, IsToldWhatHappensInOrder) {
  const testing::TemporaryFolder folder;
  TrainOptions options = tiny_run_options(tiny_corpus(), folder / "run");
  options.max_steps = 2;
  options.valid_every = 2;
  options.valid_max_sentences = 1;
  options.digest_every = 2;
  const auto notes_of = [&] {
    Recorder recorder;
    Context context({.threads = 1});
    train(context, *make_self_communicator(), options, "ventris train (test)", &recorder);
    return recorder.notes;
  };
  EXPECT_EQ(notes_of(), (std::vector<std::string>{"start after 0", "step 1", "interval 1", "step 2",
                                                  "interval 2", "digest 2", "best 2", "saved 2", "end 2"}));
  EXPECT_EQ(notes_of(), std::vector<std::string>{"start after 2"}) << "there is nothing to do";
  options.max_steps = 3;
  const std::vector<std::string> resumed = notes_of();
  ASSERT_GT(resumed.size(), 1U);
  EXPECT_EQ(resumed[0], "start after 2");
  EXPECT_EQ(resumed[1], "step 3");
}

}  // namespace
}  // namespace ventris
