// SPDX-License-Identifier: Apache-2.0
#include "trainer/tensorboard.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/support/tiny_run.h"
#include "trainer/metrics.h"
#include "trainer/script_runner.h"

namespace ventris {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

/// The last step and the bytes of each event file, in the order of their names.
std::vector<std::pair<int64_t, int64_t>> files_of(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(folder + "/tensorboard")) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::pair<int64_t, int64_t>> files;
  for (const std::string& path : paths) {
    const EventFilePart part = find_events_up_to(path, std::numeric_limits<int64_t>::max());
    EXPECT_TRUE(part.bytes == part.file_bytes || part.bytes == 0) << path;
    files.emplace_back(part.last_step, part.bytes);
  }
  return files;
}

/// A start that logs digests, which are no numbers, and validations of these steps.
void start(const std::string& folder, int64_t last_step, bool validates, const std::vector<int64_t>& steps,
           bool with_events = true) {
  MetricsLog metrics(folder, last_step, validates);
  if (!with_events) {
    cut_event_files(folder, last_step);
  }
  std::optional<TensorBoardLog> events;
  if (with_events) {
    events.emplace(folder, last_step, validates);
    metrics.set_listener([&](const nlohmann::ordered_json& line) { events->write_line(line); });
  }
  for (const int64_t step : steps) {
    metrics.write_digest(step, "0123");
    metrics.write(ValidationMetrics{.step = step, .loss = 2.0, .nll = 1.0});
  }
}

TEST(TensorBoard, EachStartHasAFileAndNoStepIsThereTwice) {
  const TemporaryFolder folder;
  start(folder / "", -1, false, {10, 20, 30});
  const auto bytes = files_of(folder / "").at(0).second;
  start(folder / "", 20, false, {30, 40});
  auto files = files_of(folder / "");
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[0].first, 20);
  EXPECT_LT(files[0].second, bytes);
  EXPECT_EQ(files[1].first, 40);
  // Behind the checkpoint of the first start nothing of the second one stays.
  start(folder / "", 10, false, {20});
  files = files_of(folder / "");
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[0].first, 10);
  EXPECT_EQ(files[1].first, 20);
  start(folder / "", -1, false, {10});
  EXPECT_EQ(files_of(folder / "").size(), 1U);
}

TEST(TensorBoard, WhatOtherStartsLoggedIsAdded) {
  const TemporaryFolder one, other;
  start(one / "", -1, false, {10, 20, 30});
  start(other / "", -1, false, {10, 20, 30}, /*with_events=*/false);
  EXPECT_FALSE(fs::exists(path_of_events(other / "")));
  start(other / "", 30, false, {});
  EXPECT_EQ(files_of(other / ""), files_of(one / ""));
  // A start without events cuts those that it finds.
  start(other / "", 10, false, {}, /*with_events=*/false);
  EXPECT_EQ(files_of(other / "").at(0).first, 10);
}

TEST(TensorBoard, AValidationThatIsRepeatedIsThereOnce) {
  const TemporaryFolder folder;
  start(folder / "", -1, false, {10, 20});
  const int64_t one = files_of(folder / "").at(0).second;
  start(folder / "", 20, true, {});
  EXPECT_EQ(files_of(folder / "").at(0).first, 10);
  start(folder / "", 20, true, {20});
  const auto files = files_of(folder / "");
  EXPECT_EQ(files.back().first, 20);
  EXPECT_LT(files.back().second, one);
}

/// A validation at each step, and results of the script at that step and three steps later.
void start_with_scripts(const std::string& folder, int64_t last_step, const std::vector<int64_t>& steps,
                        bool with_events) {
  MetricsLog metrics(folder, last_step);
  std::optional<TensorBoardLog> events;
  if (with_events) {
    events.emplace(folder, last_step, false);
    metrics.set_listener([&](const nlohmann::ordered_json& line) { events->write_line(line); });
  } else {
    cut_event_files(folder, last_step);
  }
  for (const int64_t step : steps) {
    metrics.write(ValidationMetrics{.step = step, .loss = 2.0, .nll = 1.0});
    metrics.write_script(step, {.of = {step, "failed"}, .score = std::nullopt, .error = "why"});
    metrics.write_script(step, {.of = {step - 10, "old"}, .score = 0.5, .error = ""});
    metrics.write_script(step + 3, {.of = {step, "news"}, .score = 0.5, .error = ""});
    metrics.write_digest(step + 4, "0123");
  }
}

int64_t count_of(const std::string& bytes, const std::string& part) {
  int64_t count = 0;
  for (size_t at = 0; (at = bytes.find(part, at)) != std::string::npos; ++at) ++count;
  return count;
}

/// How often the bytes of a tag are in all event files.
int64_t count_of_tag(const std::string& folder, const std::string& tag) {
  int64_t count = 0;
  for (const auto& entry : fs::directory_iterator(folder + "/tensorboard")) {
    std::ifstream file(entry.path(), std::ios::binary);
    count += count_of(std::string(std::istreambuf_iterator<char>(file), {}), tag);
  }
  return count;
}

TEST(TensorBoard, ScoresThatComeLaterAreThereOnceWhereverTheRunIsCut) {
  for (const bool first : {true, false}) {
    for (const bool second : {true, false}) {
      // Before and after the lines of the scores of step 20, which are at step 23, and behind everything.
      for (const int64_t cut : {12, 13, 20, 22, 23, 24, 34, 99}) {
        const TemporaryFolder folder;
        start_with_scripts(folder / "", -1, {10, 20, 30}, first);
        start_with_scripts(folder / "", cut, {}, second);
        start_with_scripts(folder / "", cut, {}, /*with_events=*/true);
        std::ifstream file(folder / "metrics.jsonl");
        const std::string log(std::istreambuf_iterator<char>(file), {});
        const int64_t news = cut < 13 ? 0 : cut < 23 ? 1 : cut < 33 ? 2 : 3;
        const int64_t old = cut < 20 ? 1 : cut < 30 ? 2 : 3;
        EXPECT_EQ(count_of(log, "\"news\""), news);
        EXPECT_EQ(count_of(log, "\"old\""), old);
        EXPECT_EQ(count_of_tag(folder / "", "valid_script/news"), news) << first << second << cut;
        EXPECT_EQ(count_of_tag(folder / "", "valid_script/old"), old) << first << second << cut;
        EXPECT_EQ(count_of_tag(folder / "", "valid_script/failed"), 0);
        EXPECT_EQ(count_of_tag(folder / "", "valid_loss"), cut < 20 ? 1 : cut < 30 ? 2 : 3);
      }
    }
  }
}

TEST(TensorBoard, FilesOfOthersStayAsTheyAre) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "tensorboard");
  const std::string other = folder / "tensorboard/events.out.tfevents.99.host.1.0";
  std::ofstream(other) << "theirs";
  start(folder / "", -1, false, {10});
  EXPECT_EQ(fs::file_size(other), 6U);
}

}  // namespace
}  // namespace ventris
