#include "trainer/tensorboard.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/support/tiny_run.h"
#include "trainer/metrics.h"

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
