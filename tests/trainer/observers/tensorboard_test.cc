// SPDX-License-Identifier: Apache-2.0
#include "trainer/observers/tensorboard.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "tests/support/tiny_run.h"
#include "trainer/observers/metrics.h"

namespace ventris {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

/// A start that logs digests, which are no numbers, validations of these steps, and scores of a script three
/// steps later.
void start(const std::string& folder, int64_t last_step, const std::vector<int64_t>& steps,
           bool with_events = true) {
  MetricsLog metrics(folder, last_step);
  std::optional<TensorBoardLog> events;
  if (with_events) {
    events.emplace(folder);
    metrics.set_listener([&](const nlohmann::ordered_json& line) { events->write_line(line); });
  }
  for (const int64_t step : steps) {
    metrics.on_digest({.step = step, .digest = "0123"});
    metrics.on_validation(ValidationMetrics{.step = step, .loss = 2.0, .nll = 1.0});
    metrics.on_script_result(
        {.of_step = step, .set = "failed", .score = std::nullopt, .error = "why", .step = step});
    metrics.on_script_result({.of_step = step, .set = "news", .score = 0.5, .error = "", .step = step + 3});
  }
}

std::vector<std::string> files_of(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(folder + "/tensorboard")) paths.push_back(entry.path());
  return paths;
}

/// How often the bytes of a tag are in the only event file.
int64_t count_of(const std::string& folder, const std::string& tag) {
  const std::vector<std::string> files = files_of(folder);
  EXPECT_EQ(files.size(), 1U);
  std::ifstream file(files.at(0), std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  int64_t count = 0;
  for (size_t at = 0; (at = bytes.find(tag, at)) != std::string::npos; ++at) ++count;
  return count;
}

TEST(TensorBoard, HasTheNumbersOfTheLogOnceWhateverStartsWroteThem) {
  for (const bool first : {true, false}) {
    for (const int64_t cut : {12, 13, 20, 23, 99}) {
      const TemporaryFolder folder;
      start(folder / "", -1, {10, 20, 30}, first);
      EXPECT_EQ(fs::exists(folder / "tensorboard"), first);
      start(folder / "", cut, {}, /*with_events=*/false);
      start(folder / "", cut, {});
      start(folder / "", cut, {100});
      EXPECT_EQ(count_of(folder / "", "valid_loss"), cut < 20 ? 2 : cut < 30 ? 3 : 4) << cut;
      EXPECT_EQ(count_of(folder / "", "valid_script/news"), cut < 13   ? 1
                                                            : cut < 23 ? 2
                                                            : cut < 33 ? 3
                                                                       : 4)
          << cut;
      EXPECT_EQ(count_of(folder / "", "failed"), 0);
    }
  }
}

TEST(TensorBoard, AFileComesAfterThoseBeforeItWhateverTheClockSays) {
  const TemporaryFolder folder;
  start(folder / "", -1, {10});
  const std::string names = folder / "tensorboard/events.out.tfevents.";
  fs::rename(files_of(folder / "").at(0), names + "9000000000000000000.ventris");
  start(folder / "", 10, {20});
  const std::vector<std::string> files = files_of(folder / "");
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(fs::path(files[0]).filename(), "events.out.tfevents.9000000000000000001.ventris");
}

TEST(TensorBoard, FilesOfOthersStayAsTheyAre) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "tensorboard");
  const std::string other = folder / "tensorboard/events.out.tfevents.99.host.1.0";
  std::ofstream(other) << "theirs";
  start(folder / "", -1, {10});
  start(folder / "", 10, {20});
  EXPECT_EQ(fs::file_size(other), 6U);
  EXPECT_EQ(files_of(folder / "").size(), 2U);
}

}  // namespace
}  // namespace ventris
