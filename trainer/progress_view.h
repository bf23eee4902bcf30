// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trainer/progress_picture.h"

namespace ventris {

struct IntervalMetrics;
struct TrainOptions;
struct ValidationMetrics;

/// Where a run stands when a start begins, for the picture of --progress full.
struct ProgressStart {
  std::string metric;  // --valid-metric, resolved
  bool validates;      // whether there are to be validations
  int64_t best_step;   // 0: none
  double best;         // value of the metric
  bool resumes;        // from a checkpoint of this step
  int64_t step;
  double epoch;
  double elapsed_seconds;
  std::chrono::steady_clock::time_point begun;  // this start, as --max-minutes counts
  int ranks;
  /// Whether the memory of the device of this rank is to be asked for (cuda_memory()).
  bool has_device_memory;
};

/// Collects what --progress full shows, on rank 0. Not for several threads.
class ProgressView {
 public:
  explicit ProgressView(const TrainOptions& options);

  /// Of a run that resumes, the curve and the last validations begin with what metrics.jsonl has of it.
  /// Returns "", or why they do not.
  std::string begin(const ProgressStart& start);
  bool has_begun() const { return has_begun_; }
  void reach(const IntervalMetrics& metrics, double seconds_left);
  /// A point of the curve.
  void end_interval(const IntervalMetrics& metrics);
  void validated(const ValidationMetrics& metrics, bool best);
  void saved(int64_t step);
  void set_activity(const std::string& what);
  /// The last picture says how the run ended: "done".
  void end(const std::string& how);

  /// The rows of a LiveBlock: the picture between blank rows. The cursor waits in the last: what is typed,
  /// the prompt of a shell after a kill, and the message of an error begin there. A row that a typed line end
  /// pushes out is blank.
  std::vector<std::string> rows(const TerminalSize& size);

 private:
  using Clock = std::chrono::steady_clock;

  void take_log(const std::string& path);
  void measure_memory();
  /// Of the way to the nearest end set by the options.
  double fraction() const;

  const std::string model_dir_;
  const int64_t max_epochs_;
  const double max_seconds_;  // of this start; 0: no limit
  const PictureStyle style_;
  PicturedRun run_;
  bool has_begun_ = false;
  bool has_device_memory_ = false;
  bool has_ended_ = false;
  Clock::time_point begun_ = Clock::now();    // this start
  Clock::time_point reached_ = Clock::now();  // when the times of the run were taken
  Clock::time_point saved_ = Clock::now();
  Clock::time_point measured_ = Clock::now();  // the memory
};

}  // namespace ventris
