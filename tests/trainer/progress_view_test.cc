// SPDX-License-Identifier: Apache-2.0
#include "trainer/progress_view.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/tiny_run.h"
#include "trainer/metrics.h"
#include "trainer/train_options.h"

namespace ventris {
namespace {

constexpr TerminalSize kTerminal{80, 24};

class ProgressViewTest : public ::testing::Test {
 protected:
  ProgressViewTest() {
    options_.model_dir = folder_ / "model";
    options_.max_steps = 1000;
    std::filesystem::create_directory(options_.model_dir);
  }
  ProgressStart start(bool resumes) const {
    return {.metric = "bleu",
            .validates = true,
            .best_step = resumes ? 20 : 0,
            .best = resumes ? 31.5 : 0.0,
            .resumes = resumes,
            .step = resumes ? 40 : 0,
            .epoch = 0.5,
            .elapsed_seconds = 10.0,
            .begun = std::chrono::steady_clock::now(),
            .ranks = 1,
            .has_device_memory = false};
  }
  static std::string text_of(ProgressView& view) {
    std::string text;
    for (const std::string& row : view.rows(kTerminal)) text += row + "\n";
    return text;
  }
  static ValidationMetrics validation(int64_t step, double bleu) {
    ValidationMetrics metrics;
    metrics.step = step;
    metrics.loss = 2.5;
    metrics.has_bleu = true;
    metrics.bleu = bleu;
    return metrics;
  }

  testing::TemporaryFolder folder_;
  TrainOptions options_;
};

TEST_F(ProgressViewTest, IsBetweenBlankRows) {
  ProgressView view(options_);
  EXPECT_EQ(view.begin(start(false)), "");
  const std::vector<std::string> rows = view.rows(kTerminal);
  EXPECT_EQ(rows.front(), "");
  EXPECT_EQ(rows.back(), "");
  EXPECT_NE(rows[1], "");
  EXPECT_EQ(view.rows({80, 5}).size(), 1U);
}

TEST_F(ProgressViewTest, KeepsTheLastThreeValidationsAndTheBest) {
  ProgressView view(options_);
  view.begin(start(false));
  for (const int64_t step : {10, 20, 30, 40}) view.validated(validation(step, 30.0 + step), step != 40);
  view.validated(validation(40, 12.25), false);  // again, after a stop
  const std::string text = text_of(view);
  for (const char* part : {"\n        40    2.5000", "12.25", "\n        30 ", "60.00", "\n        20 ",
                           "best BLEU 60.00 at step 30"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  }
  EXPECT_EQ(text.find("\n        10 "), std::string::npos) << text;
  EXPECT_EQ(text.find("70.00"), std::string::npos) << text;
}

TEST_F(ProgressViewTest, BeginsWithWhatTheLogHas) {
  const std::string log = options_.model_dir + "/metrics.jsonl";
  std::ofstream(log) << R"({"step":20,"type":"interval","loss":7.5})"
                     << "\n"
                     << R"({"step":20,"type":"validation","valid_loss":3.25,"valid_bleu":31.5})"
                     << "\n"
                     << R"({"step":40,"type":"interval","loss":5.5})"
                     << "\n";
  ProgressView view(options_);
  EXPECT_EQ(view.begin(start(true)), "");
  const std::string text = text_of(view);
  for (const char* part : {"step 40/1000", "3.2500", "best BLEU 31.50 at step 20", " 7.500 ", " 5.500 ",
                           "loss 20 ", " 40\n", "checkpoint of step 40\n"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  }
  // A picture ends no run.
  std::ofstream(log) << R"({"step":20,"type":"interval","loss":7.5,"format":"ventris metrics 99"})"
                     << "\n";
  ProgressView other(options_);
  EXPECT_NE(other.begin(start(true)), "");
  EXPECT_NE(text_of(other).find("best BLEU 31.50 at step 20"), std::string::npos);
}

TEST_F(ProgressViewTest, ShowsTheNearestEnd) {
  options_.max_epochs = 2;
  ProgressView view(options_);
  view.begin(start(false));
  IntervalMetrics metrics;
  metrics.step = 100;
  metrics.epoch = 1.5;
  view.reach(metrics, 10.0);
  EXPECT_NE(text_of(view).find("75.0 %"), std::string::npos) << text_of(view);
}

TEST_F(ProgressViewTest, ShowsTheTimeLimitIfItIsTheNearestEnd) {
  for (const auto& [minutes, expected] :
       {std::pair{100.0, " 50.0 %"}, std::pair{40.0, "100.0 %"}, std::pair{1000.0, " 10.0 %"}}) {
    options_.max_minutes = minutes;
    ProgressView view(options_);
    // A start that goes on a run of many hours: the limit is that of the start.
    ProgressStart begin = start(false);
    begin.elapsed_seconds = 1e6;
    begin.begun -= std::chrono::minutes(50);
    view.begin(begin);
    IntervalMetrics metrics;
    metrics.step = 100;
    metrics.elapsed_seconds = 1e6 + 3000.0;
    view.reach(metrics, 10.0);
    EXPECT_NE(text_of(view).find(expected), std::string::npos) << text_of(view);
  }
}

}  // namespace
}  // namespace ventris
