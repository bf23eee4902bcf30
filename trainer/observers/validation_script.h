// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "trainer/observer.h"
#include "trainer/train_options.h"

namespace ventris {

/// --valid-script, on rank 0: a command of the user that scores translations beside training, one set after
/// the other. It reads the texts of trainer/validation/valid_outputs.h; what it prints is kept beside them,
/// as NAME.score and NAME.log. A script that fails, or takes more than half an hour, has no score. Its
/// process is made by posix_spawn, as a fork is unsafe beside MPI and devices.
class ValidationScript final : public Observer {
 public:
  /// `sets`: the names of the validation sets. Hands each result to `report`. The options must outlive the
  /// object.
  ValidationScript(const TrainOptions& options, std::vector<std::string> sets,
                   std::function<void(const ScriptResult&)> report)
      : options_(options), sets_(std::move(sets)), report_(std::move(report)) {}
  ~ValidationScript() override { stop(); }

  /// Starts with the first set. Sets of an earlier validation that still wait get no score.
  void on_validation(const ValidationMetrics& metrics) override;
  /// Reports the result that has arrived, at the present step, and starts with the next set.
  void poll(int64_t step);
  /// Whether scores are missing; if so, after that time.
  bool works(std::chrono::milliseconds wait) const;
  /// Kills the script. What has no score gets none.
  void stop();

 private:
  void report(ScriptResult& result, int64_t step) const;
  std::string path_of(const ScriptResult& task, const char* ending) const;
  /// Returns false if the process cannot be made.
  bool run(const ScriptResult& task);
  void read_score(ScriptResult& task, int status) const;

  const TrainOptions& options_;
  const std::vector<std::string> sets_;
  const std::function<void(const ScriptResult&)> report_;
  std::deque<ScriptResult> waiting_;  // the first is being scored while there is a process
  pid_t process_ = 0;
};

}  // namespace ventris
