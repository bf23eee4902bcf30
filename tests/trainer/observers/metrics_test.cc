// SPDX-License-Identifier: Apache-2.0
#include "trainer/observers/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "data/error.h"
#include "data/io/file_format.h"
#include "data/io/folder_lock.h"
#include "data/io/json_text.h"
#include "tests/support/tiny_run.h"
#include "trainer/observers/metrics_reader.h"
#include "trainer/observers/progress_text.h"

namespace ventris {
namespace {

using testing::TemporaryFolder;

std::vector<nlohmann::json> lines_of(const std::string& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(data::read_json(line));
  return lines;
}

IntervalMetrics some_metrics(int64_t step) {
  return {.step = step,
          .epoch = 1.25,
          .sums = {.loss = 500.0, .nll = 400.0, .target_tokens = 200, .source_tokens = 100, .seconds = 2.0},
          .learning_rate = 0.001,
          .gradient_norm = 0.5,
          .target_tokens = 4000,
          .elapsed_seconds = 12.5,
          .skipped_steps = 1};
}

TEST(Metrics, ALogThatIsRemovedIsBegunAnewUnlessTheFolderIsAnother) {
  const TemporaryFolder folder;
  const std::string run = folder / "run";
  std::filesystem::create_directory(run);
  const data::FolderLock lock(run);  // its file tells one folder from another
  MetricsLog log(run, 0);
  log.on_digest({.step = 1, .digest = "01"});
  std::filesystem::remove(run + "/metrics.jsonl");
  log.on_digest({.step = 2, .digest = "02"});
  log.on_digest({.step = 3, .digest = "03"});
  const auto lines = lines_of(run + "/metrics.jsonl");
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].at("event"), "removed");
  EXPECT_EQ(lines[0].at("step"), 2);
  EXPECT_EQ(lines[1].at("digest"), "02");
  EXPECT_EQ(lines[2].at("digest"), "03");

  std::filesystem::rename(run, folder / "moved");
  std::filesystem::create_directory(run);
  log.on_digest({.step = 4, .digest = "04"});
  EXPECT_TRUE(std::filesystem::is_empty(run));
  EXPECT_EQ(lines_of(folder / "moved/metrics.jsonl").back().at("digest"), "04");
}

TEST(Metrics, AnIntervalOnADeviceHasItsRateAndItsMemory) {
  const TemporaryFolder folder;
  MetricsLog log(folder / "", 0);
  IntervalMetrics metrics = some_metrics(1);
  log.on_interval(metrics);
  metrics.device = {.flops_per_second = 4e14, .memory_bytes = int64_t{3} << 30};
  log.on_interval(metrics);
  const auto lines = lines_of(folder / "metrics.jsonl");
  ASSERT_EQ(lines.size(), 2U);
  for (const char* key : {"model_flops_per_second", "device_memory_bytes"})
    EXPECT_FALSE(lines[0].contains(key)) << key;
  EXPECT_DOUBLE_EQ(lines[1]["model_flops_per_second"], 4e14);
  EXPECT_EQ(lines[1]["device_memory_bytes"], int64_t{3} << 30);
}

TEST(Metrics, ALogThatCannotBeReadIsNotWrittenAnew) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "metrics.jsonl");  // can be opened, but not read
  try {
    MetricsLog log(folder / "", 5);
    ADD_FAILURE() << "a log that cannot be read went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kIo);
    EXPECT_NE(std::string(error.what()).find("Is a directory"), std::string::npos) << error.what();
  }
}

TEST(Metrics, AValidationIsOneObjectAndNothingIsEverNaN) {
  const TemporaryFolder folder;
  MetricsLog log(folder / "", 0);
  log.on_validation(ValidationMetrics{.step = 100, .loss = 2.0, .nll = 1.0, .has_bleu = true, .bleu = 33.5});
  log.on_validation(
      ValidationMetrics{.step = 200, .loss = std::numeric_limits<double>::quiet_NaN(), .nll = 1e9});
  IntervalMetrics skipped = some_metrics(300);
  skipped.sums = {};
  log.on_interval(skipped);
  const auto lines = lines_of(folder / "metrics.jsonl");
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_DOUBLE_EQ(lines[0]["valid_loss"], 2.0);
  EXPECT_DOUBLE_EQ(lines[0]["valid_perplexity"], std::exp(1.0));
  EXPECT_DOUBLE_EQ(lines[0]["valid_bleu"], 33.5);
  EXPECT_FALSE(lines[1].contains("valid_loss"));
  EXPECT_TRUE(lines[1]["valid_perplexity"].is_number());
  EXPECT_FALSE(lines[1].contains("valid_bleu"));
  EXPECT_FALSE(lines[2].contains("loss"));
  for (const auto& line : lines) {
    for (const auto& [key, value] : line.items()) {
      EXPECT_TRUE(key == "type" || key == "time" || key == "format" || value.is_number()) << line;
    }
  }
}

TEST(Metrics, AStepThatIsValidatedAnewLosesItsValidationAlone) {
  const TemporaryFolder folder;
  const auto steps_after = [&](bool validates_last_step) {
    {
      MetricsLog log(folder / "", -1);
      log.on_validation(ValidationMetrics{.step = 10});
      log.on_interval(some_metrics(20));
      log.on_digest({.step = 20, .digest = "0123"});
      log.on_validation(ValidationMetrics{.step = 20, .has_bleu = true, .bleu = 12.0});
      log.on_script_result({.of_step = 10, .set = "news", .score = 0.5, .error = "", .step = 20});
      log.on_script_result({.of_step = 20, .set = "news", .score = {}, .error = "it ended", .step = 20});
    }
    const MetricsLog log(folder / "", 20, validates_last_step);
    return lines_of(folder / "metrics.jsonl");
  };
  EXPECT_EQ(steps_after(false).size(), 6U);
  const auto lines = steps_after(true);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines.front()["step"], 10);
  for (const auto& line : lines) EXPECT_FALSE(line.contains("valid_bleu") || line.contains("error"));
  EXPECT_EQ(lines.back()["score"], 0.5);
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string line_at(int64_t step, const std::string& rest) {
  const nlohmann::ordered_json line = {
      {"step", step}, {"type", rest.starts_with("v") ? "validation" : "digest"}, {"of", rest}};
  return data::json_text(line) + "\n";
}

// Steps do not decrease; up to 5 lines a step, any of them of a validation, in the order of a file.
std::vector<std::pair<int64_t, std::string>> random_log(uint32_t& state) {
  const auto next = [&](uint32_t count) {
    state = state * 1664525U + 1013904223U;
    return (state >> 16) % count;
  };
  std::vector<std::pair<int64_t, std::string>> lines;
  for (int64_t step = 0; step < 12; step += 1 + next(3)) {
    for (uint32_t i = next(6); i > 0; --i)
      lines.emplace_back(step,
                         (next(3) == 0 ? "v" : "d") + std::string(next(4) == 0 ? 40000 : next(30), 'x'));
  }
  return lines;
}

TEST(Metrics, AnyLogIsCutAsIfAllOfItHadBeenRead) {
  const std::string tails[] = {"",
                               "{\"step\": 3",
                               std::string(200000, '\0'),
                               "nonsense\n[]\n",
                               "\n",
                               std::string(150000, 'x') + "\n{\"loss\": 1}\n"};
  uint32_t state = 1;
  for (int round = 0; round < 60; ++round) {
    const auto log = random_log(state);
    for (const bool validates : {false, true}) {
      const int64_t last = static_cast<int64_t>(state >> 8) % 14 - 1;
      std::string before, expected;
      for (const auto& [step, rest] : log) {
        before += line_at(step, rest);
        const bool again = validates && step == last && rest.starts_with("v");
        if (step <= last && !again) expected += line_at(step, rest);
      }
      const std::string& tail = tails[static_cast<size_t>(round) % std::size(tails)];
      if (tail.empty() && round % 2 == 1 && !before.empty())
        before.pop_back();  // the last line end is missing
      const TemporaryFolder folder;
      std::ofstream(folder / "metrics.jsonl", std::ios::binary) << before << tail;
      { const MetricsLog metrics(folder / "", last, validates); }
      ASSERT_EQ(text_of(folder / "metrics.jsonl"), expected)
          << "round " << round << ", step " << last << validates;
    }
  }
}

TEST(Metrics, ALogThatLacksNothingIsNotTouched) {
  const TemporaryFolder folder;
  const std::string front = "no JSON\n" + line_at(10, "d");
  std::ofstream(folder / "metrics.jsonl") << front << line_at(20, "d");
  const auto before = std::filesystem::last_write_time(folder / "metrics.jsonl");
  { const MetricsLog metrics(folder / "", 20); }
  EXPECT_EQ(std::filesystem::last_write_time(folder / "metrics.jsonl"), before);
  const MetricsLog metrics(folder / "", 10);
  EXPECT_EQ(metrics.last_dropped(), 20);
  EXPECT_EQ(text_of(folder / "metrics.jsonl"), front);
}

TEST(Metrics, AStartThatResumesIsReadAsARestart) {
  const TemporaryFolder folder;
  {
    MetricsLog log(folder / "", -1);
    log.on_skipped_step({.step = 38, .place = "the loss", .first_seen = ""});
    IntervalMetrics metrics = some_metrics(40);
    metrics.skipped_steps = 1;
    log.on_interval(metrics);
    log.on_start({.model_dir = folder / "",
                  .host = "node7",
                  .ranks = 2,
                  .step = 40,
                  .resumed = ResumedStart{.checkpoint = "checkpoint-00000040.h5",
                                          .program = "ventris 1.2.3",
                                          .device = "cpu",
                                          .hosts = 1,
                                          .lost_steps = 7,
                                          .previous_state = "failed",
                                          .previous_exit_code = 69,
                                          .previous_message = "rank 1 is gone"}});
  }
  const MetricsRecord record = read_metrics(folder / "metrics.jsonl");
  ASSERT_EQ(record.marks.size(), 2U);
  EXPECT_EQ(record.marks[0].text, "step 38 skipped: NaN or Inf in the loss");
  EXPECT_EQ(record.marks[1].kind, MetricsMark::Kind::kRestart);
  EXPECT_EQ(
      record.marks[1].text,
      "resumed from checkpoint-00000040.h5 with 2 ranks on 1 host by ventris 1.2.3; the start before failed with "
      "exit code 69: rank 1 is gone; at least 7 steps were computed again");
  EXPECT_FALSE(record.series.contains("ranks"));
}

TEST(Metrics, ALogOfALaterVersionIsRefusedAndLeftAsItIs) {
  const TemporaryFolder folder;
  const std::string log =
      line_at(10, "d") + line_at(20, "d") + "{\"step\":15,\"format\":\"ventris metrics 99\"}\n{\"to";
  std::ofstream(folder / "metrics.jsonl") << log;
  EXPECT_THROW(MetricsLog(folder / "", 10), data::NewerFormat);
  EXPECT_EQ(text_of(folder / "metrics.jsonl"), log);
}

TEST(Metrics, AFolderThatCannotBeWrittenIsAnError) {
  EXPECT_THROW(MetricsLog("/nonexistent/folder", 0), data::DataError);
}

TEST(Progress, TellsNumbersAndTimeToAPerson) {
  EXPECT_EQ(duration_text(12.4), "12 s");
  EXPECT_EQ(duration_text(200), "3 min 20 s");
  EXPECT_EQ(duration_text(3900), "1 h 05 min");
  const std::string text = progress_text(some_metrics(50), 1000, 90.0, /*smooths=*/true);
  for (const char* part : {"step 50/1000", "epoch 1.25", "smoothed loss 2.5", "perplexity 7.39",
                           "lr 1.000e-03", "100 target tokens/s", "1 skipped", "1 min 30 s left"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
  }
}

TEST(Progress, TellsHowFarADeviceIsUsed) {
  IntervalMetrics metrics = some_metrics(50);
  EXPECT_EQ(progress_text(metrics, 1000, 90.0, /*smooths=*/false).find("used"), std::string::npos);
  metrics.device = {.flops_per_second = 3.89e14, .memory_bytes = int64_t{3} << 30};
  const std::string text = progress_text(metrics, 1000, 90.0, /*smooths=*/false);
  EXPECT_NE(text.find("tokens/s  389.0 TFLOP/s per GPU  3.0 GiB used"), std::string::npos) << text;
}

}  // namespace
}  // namespace ventris
