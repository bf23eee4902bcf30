#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "trainer/metrics.h"

namespace ventris {

/// Talks to the user on the standard error stream: on a terminal one live line, in a log one line for each
/// interval. Ranks other than the first are silent.
class Progress {
 public:
  Progress(bool speaks, int64_t max_steps);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// True where the live line wants new numbers: on a terminal, twice a second.
  bool wants_live_line() const;
  void live_line(const IntervalMetrics& metrics, double seconds_left);
  /// In a log; on a terminal the live line shows it.
  void interval(const IntervalMetrics& metrics, double seconds_left);
  void validation(const ValidationMetrics& metrics, bool best, double seconds);
  void message(const std::string& text);
  void warning(const std::string& text);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// "1 h 05 min", "3 min 20 s", "12 s".
std::string duration_text(double seconds);
/// One line of numbers for a person.
std::string progress_text(const IntervalMetrics& metrics, int64_t max_steps, double seconds_left);

}  // namespace ventris
