// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "data/prepare.h"
#include "trainer/observers/live_line.h"

namespace ventris {

/// The result of `prepare` for programs; without what the command itself knows.
nlohmann::json prepare_json(const data::PrepareReport& report);
/// The report for people, as lines.
std::string prepare_text(const data::PrepareReport& report);

/// Shows on the standard error what `prepare` is doing: on a terminal in one live line
/// (trainer/observers/live_line.h), elsewhere in a line at each --log-seconds.
class PrepareProgressLine {
 public:
  /// Nothing is shown unless it `is_rank_zero`.
  PrepareProgressLine(bool is_rank_zero, double log_seconds)
      : is_rank_zero_(is_rank_zero), log_seconds_(log_seconds) {}
  ~PrepareProgressLine() { line_.clear(); }
  PrepareProgressLine(const PrepareProgressLine&) = delete;
  PrepareProgressLine& operator=(const PrepareProgressLine&) = delete;

  void show(const data::PrepareProgress& progress);

 private:
  using Clock = std::chrono::steady_clock;

  const bool is_rank_zero_;
  const double log_seconds_;
  LiveLine line_;
  std::string phase_;
  Clock::time_point phase_begin_ = Clock::now();
  Clock::time_point last_shown_ = Clock::now();
};

}  // namespace ventris
