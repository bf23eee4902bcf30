// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <deque>
#include <optional>
#include <string>

#include "trainer/observers/metrics.h"
#include "trainer/observers/progress.h"
#include "trainer/train_options.h"
#include "trainer/validation/validation_sets.h"

namespace ventris {

/// What --valid-script says of a validation set at a step.
struct ScriptResult {
  int64_t of_step = 0;
  std::string set;
  std::optional<double> score = {};
  std::string error = {};  // why there is none
};

/// --valid-script, on rank 0: a command of the user that scores translations beside training, one set after
/// the other. It reads the texts of trainer/validation/valid_outputs.h; what it prints is kept beside them,
/// as NAME.score and NAME.log. A script that fails, or takes more than half an hour, leaves an event in the
/// log and a warning. Its process is made by posix_spawn, as a fork is unsafe beside MPI and devices.
class ValidationScript {
 public:
  /// The references must outlive the object.
  ValidationScript(const TrainOptions& options, MetricsLog& metrics, Progress& progress)
      : options_(options), metrics_(metrics), progress_(progress) {}
  ~ValidationScript() { stop(); }
  ValidationScript(const ValidationScript&) = delete;
  ValidationScript& operator=(const ValidationScript&) = delete;

  /// The outputs of a validation are there. Sets of an earlier one that still wait get no score.
  void start(int64_t step, const ValidationSets& sets);
  /// Writes the result that has arrived to the log, at the present step, and goes on with the next set.
  void log_arrived(int64_t step);
  /// Whether scores are missing; if so, after that time.
  bool works(std::chrono::milliseconds wait) const;
  /// Kills the script. What has no score gets none.
  void stop();

 private:
  void log(const ScriptResult& result, int64_t step);
  std::string path_of(const ScriptResult& task, const char* ending) const;
  /// Returns false if the process cannot be made.
  bool run(const ScriptResult& task);
  void read_score(ScriptResult& task, int status) const;

  const TrainOptions& options_;
  MetricsLog& metrics_;
  Progress& progress_;
  std::deque<ScriptResult> waiting_;  // the first is being scored while there is a process
  pid_t process_ = 0;
};

}  // namespace ventris
