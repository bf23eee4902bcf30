// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "trainer/metrics.h"
#include "trainer/progress.h"
#include "trainer/script_runner.h"
#include "trainer/train_options.h"
#include "trainer/validation_sets.h"

namespace ventris {

/// Throws Error(kBadConfiguration) for --valid-script without validations.
void check_valid_script(const TrainOptions& options, bool has_pairs);

/// --valid-script: scores of the translations of validations, which arrive later, on rank 0. Texts without a
/// score that a resume would find in the log stay on the disk (trainer/files/script_texts.h), and the next
/// start scores them. A script that fails only leaves an event in the log and a warning.
class ValidationScript {
 public:
  /// Where a start goes on.
  struct Start {
    int64_t step;  // of the checkpoint; -1: none
    bool validates_again;
  };

  /// After the log was cut: continues with the texts that earlier starts left. The references must outlive
  /// the object. Throws Error(kIo), data::DataError.
  ValidationScript(const TrainOptions& options, const Start& start, MetricsLog& metrics, Progress& progress);

  /// The scores of `translations`, one list for each set, are wanted. The sets of one validation are scored
  /// one after the other; of others only those of the newest validation wait.
  void start(int64_t step, const ValidationSets& sets,
             const std::vector<std::vector<std::string>>& translations);
  /// Writes the results that have arrived to the log, at the present step.
  void log_arrived(int64_t step);
  /// A checkpoint that is written from now on has, once it is on the disk, the lines of the log up to now.
  void save_begins(int64_t step);
  void saved();
  /// Whether scores are missing after that time, for which it waits if so. Also after stop().
  bool works(std::chrono::milliseconds wait) { return runner_.works(wait); }
  /// Kills the script; the next start scores what has no score.
  void stop() { runner_.stop(); }
  /// At the end of the run: all that was logged is on the disk.
  void finish();

 private:
  void log(const ScriptResult& result, int64_t step);
  void forget(std::vector<ScriptTask>& tasks);

  const TrainOptions& options_;
  MetricsLog& metrics_;
  Progress& progress_;
  int64_t saved_step_;                        // of the last checkpoint, also of one that is being written
  std::vector<ScriptTask> logged_, covered_;  // since that checkpoint; by it
  std::vector<ScriptResult> without_run_;
  ScriptRunner runner_;
};

}  // namespace ventris
