// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "trainer/metrics.h"
#include "trainer/progress_view.h"

namespace ventris {

struct TrainOptions;

/// Messages to the user on the standard error stream: on a terminal, also on that of a launcher that forwards
/// the stream, one live line or a picture; in a log one line for each interval, and one after --log-seconds
/// without a message; stop requests are reported immediately. Only the first rank writes.
class Progress {
 public:
  /// In the form set by --progress.
  Progress(bool speaks, const TrainOptions& options);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Before the first step: the picture is there from here on.
  void begin(const ProgressStart& start);
  /// True if a line is due after a step that does not end an interval: twice a second on a terminal,
  /// otherwise after --log-seconds without a message.
  bool wants_line() const;
  /// Called then.
  void line(const IntervalMetrics& metrics, double seconds_left);
  void interval(const IntervalMetrics& metrics, double seconds_left);  // at its end
  /// After --log-seconds without a message, or twice a second in the picture, reports the state of the step.
  void goes_on(int64_t step, const std::string& what);
  void validation(const ValidationMetrics& metrics, bool best, double seconds);
  void saved(int64_t step);               // that checkpoint is on the disk
  void end(const std::string& how);       // "done": before the last messages
  void message(const std::string& text);  // from any thread
  void warning(const std::string& text);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The steps and the time of a start of a run, or since it went back.
struct RunProgress {
  int64_t first_step;
  int64_t step;
  double first_epoch;
  double epoch;
  double seconds;
  double seconds_of_process;  // which --max-minutes limits
};
/// Seconds to the nearest end set by the options, at the rate so far.
double seconds_left(const TrainOptions& options, const RunProgress& run);

}  // namespace ventris
