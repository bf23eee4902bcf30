// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "trainer/files/script_texts.h"
#include "trainer/script_process.h"

namespace ventris {

struct ScriptResult {
  ScriptTask of;
  std::optional<double> score;
  std::string error;  // why there is none
};

/// The number in the first line of what a script printed; otherwise the error says what is wrong.
ScriptResult result_of(const ScriptTask& task, const ScriptEnd& end);

/// Runs a script for one task after the other, on a thread of its own.
class ScriptRunner {
 public:
  /// The command gets VENTRIS_STEP, VENTRIS_SET, VENTRIS_SOURCES, VENTRIS_REFERENCES and VENTRIS_TRANSLATIONS
  /// in its environment: the task and the absolute paths of its texts.
  ScriptRunner(ScriptCommand command, std::string model_dir);
  /// stop().
  ~ScriptRunner();
  ScriptRunner(const ScriptRunner&) = delete;
  ScriptRunner& operator=(const ScriptRunner&) = delete;

  void add(const ScriptTask& task);
  /// Takes the waiting tasks out of the queue, except those of the step that is being scored.
  std::vector<ScriptTask> drop_waiting();
  /// The results that have arrived since the last call.
  std::vector<ScriptResult> take();
  /// Whether a task is without a result after that time, for which it waits if so. Also after stop().
  bool works(std::chrono::milliseconds wait);
  /// Kills the script. Tasks without a result get none.
  void stop();

 private:
  void run();
  ScriptCommand command_for(const ScriptTask& task) const;

  const ScriptCommand command_;
  const std::string model_dir_;
  std::atomic<bool> stops_ = false;
  std::mutex mutex_;  // of the next
  std::condition_variable changed_;
  std::deque<ScriptTask> waiting_;  // the first one is being scored
  std::vector<ScriptResult> results_;
  std::thread thread_;  // the last: it uses the others
};

}  // namespace ventris
