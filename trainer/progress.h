#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "trainer/metrics.h"

namespace ventris {

struct TrainOptions;

/// Talks to the user on the standard error stream: on a terminal, also on that of a launcher that passes the
/// stream on, one live line; in a log one line for each interval, and one where nothing was said for
/// --log-seconds; and that a stop was asked for, at once. Ranks other than the first are silent.
class Progress {
 public:
  /// Says it as --progress asks for.
  Progress(bool speaks, const TrainOptions& options);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// True where a line is due after a step that ends no interval: twice a second on a terminal, else where
  /// nothing was said for long.
  bool wants_line() const;
  /// Then, and at the end of an interval.
  void line(const IntervalMetrics& metrics, double seconds_left);
  /// Where nothing was said for --log-seconds, what the step is at.
  void goes_on(int64_t step, const std::string& what);
  void validation(const ValidationMetrics& metrics, bool best, double seconds);
  void message(const std::string& text);  // from any thread
  void warning(const std::string& text);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// From where to where a start of a run has come, and in which time.
struct RunProgress {
  int64_t first_step;
  int64_t step;
  double first_epoch;
  double epoch;
  double seconds;
};
/// Seconds to the nearest of the ends that the options set, at the rate of so far.
double seconds_left(const TrainOptions& options, const RunProgress& run);

/// "1 h 05 min", "3 min 20 s", "12 s".
std::string duration_text(double seconds);
/// One line of numbers for a person. The loss is called smoothed where `smooths`: perplexity is not.
std::string progress_text(const IntervalMetrics& metrics, int64_t max_steps, double seconds_left,
                          bool smooths);

}  // namespace ventris
