// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace ventris {

struct IntervalMetrics;
struct TrainOptions;
struct ValidationMetrics;

/// Longest silence of a log, in seconds, also during a long step or validation.
inline constexpr double kLogSeconds = 10.0;

/// Messages to the user on the standard error stream: on a terminal (trainer/observers/live_line.h) one live
/// line; in a log one line for each interval, and one after `log_seconds` without a message; stop requests
/// are reported immediately. Only the first rank writes.
class Progress {
 public:
  Progress(bool speaks, const TrainOptions& options, double log_seconds = kLogSeconds);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// True if a line is due after a step that does not end an interval: twice a second on a terminal,
  /// otherwise after log_seconds without a message.
  bool wants_line() const;
  /// Called then, and at the end of an interval.
  void line(const IntervalMetrics& metrics, double seconds_left);
  /// After log_seconds without a message, reports the state of the step.
  void goes_on(int64_t step, const std::string& what);
  void validation(const ValidationMetrics& metrics, bool best, double seconds);
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
