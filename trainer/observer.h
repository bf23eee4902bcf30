// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trainer/run_metrics.h"

namespace ventris {

/// A start that resumed a run.
struct ResumedStart {
  std::string checkpoint;
  std::string program;  // name and version
  std::string device;
  int hosts = 1;
  int64_t lost_steps = 0;  // that the start before had computed after the checkpoint, as far as is known
  std::string previous_state = {};  // how that ended (StatusRecord::state, or "killed"); "" if unknown
  std::optional<int> previous_exit_code = {};
  std::string previous_message = {};
};

/// The start of a run, on this rank.
struct RunStart {
  std::string model_dir;
  std::string host;
  int rank = 0;
  int ranks = 1;
  int64_t step = 0;                          // steps done before
  std::string last_checkpoint = {};          // from which it resumes, or ""
  std::optional<ResumedStart> resumed = {};  // on rank 0, if it resumes and has work to do
};

/// What --valid-script says of a validation set at a step.
struct ScriptResult {
  int64_t of_step = 0;
  std::string set;
  std::optional<double> score = {};
  std::string error = {};  // why there is none
  int64_t step = 0;        // of the run when the result arrived
};

struct SkippedStep {
  int64_t step = 0;
  std::string place;       // of the first NaN or Inf: "the loss"
  std::string first_seen;  // of the first skipped step in a row: "the loss at step 12"
};

struct StepDigest {
  int64_t step = 0;
  std::string digest;
};

/// The last step of a stage (train --mix).
struct StageChange {
  int64_t step = 0;
  std::string name;
  std::string end;   // "until bt 2"
  std::string next;  // "" if it was the last
};

/// A drop of the learning rate (train --schedule plateau).
struct RateDrop {
  int64_t step = 0;
  double factor = 1.0;  // the product of all drops so far
  double before = 0.0;  // rates
  double after = 0.0;
  int validations = 0;  // without a better one
};

struct SavedCheckpoint {
  int64_t step = 0;
  std::string path;
};

/// The end of a run that had work to do.
struct RunEnd {
  bool stopped = false;  // on request
  int64_t step = 0;
  double elapsed_seconds = 0.0;  // over all starts
  std::string last_checkpoint;
  double target_tokens_per_second = 0.0;  // this and the next: TrainResult
  double flops_per_second = 0.0;
  int64_t peak_memory_bytes = 0;
  int ranks = 1;
};

/// Takes note of what happens in a run: on rank 0, but for the observer that the caller of train() gives,
/// which all ranks notify. Functions may be slow, and must not change the run; an exception ends it.
class Observer {
 public:
  Observer() = default;
  virtual ~Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  virtual void on_start(const RunStart& /*start*/) {}
  /// Work on a step begins, or was abandoned in the step after it.
  virtual void on_step(int64_t /*step*/) {}
  virtual void on_skipped_step(const SkippedStep& /*skipped*/) {}
  virtual void on_interval(const IntervalMetrics& /*metrics*/) {}
  virtual void on_digest(const StepDigest& /*digest*/) {}
  /// The outputs of the validation are in the run folder.
  virtual void on_validation(const ValidationMetrics& /*metrics*/) {}
  virtual void on_script_result(const ScriptResult& /*result*/) {}
  virtual void on_rate_drop(const RateDrop& /*drop*/) {}
  virtual void on_stage_end(const StageChange& /*ended*/) {}
  /// The checkpoint is on the disk, and verified.
  virtual void on_save(const SavedCheckpoint& /*saved*/) {}
  virtual void on_end(const RunEnd& /*end*/) {}
};

}  // namespace ventris
