// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "trainer/observer.h"

namespace ventris {

struct TrainOptions;

/// Longest silence of a log, in seconds, also during a long step or validation.
inline constexpr double kLogSeconds = 10.0;

/// Messages to the user on the standard error stream: on a terminal (trainer/observers/live_line.h) one live
/// line; in a log one line for each interval, and one after `log_seconds` without a message; stop requests
/// are reported immediately. Only the first rank writes.
class Progress final : public Observer {
 public:
  Progress(bool speaks, const TrainOptions& options, double log_seconds = kLogSeconds);
  ~Progress() override;

  /// True if a line is due after a step that does not end an interval: twice a second on a terminal,
  /// otherwise after log_seconds without a message.
  bool wants_line() const;
  /// Called at the end of an interval, and when a line is due.
  void on_interval(const IntervalMetrics& metrics) override;
  void on_skipped_step(const SkippedStep& skipped) override;
  void on_digest(const StepDigest& digest) override;
  void on_validation(const ValidationMetrics& metrics) override;
  void on_script_result(const ScriptResult& result) override;
  void on_rate_drop(const RateDrop& drop) override;
  void on_stage_end(const StageChange& ended) override;
  void on_end(const RunEnd& end) override;
  /// After log_seconds without a message, reports the state of the step.
  void heartbeat(int64_t step, const std::string& what);
  void message(const std::string& text);  // from any thread
  void warning(const std::string& text);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The steps and the time of a start of a run.
struct RunProgress {
  int64_t first_step;
  int64_t step;
  double first_epoch;
  double epoch;
  double seconds;
};
/// Seconds to the nearest end set by the options, at the rate so far.
double seconds_left(const TrainOptions& options, const RunProgress& run);

}  // namespace ventris
