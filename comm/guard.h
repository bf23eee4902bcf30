// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace ventris {

/// Watches a call that has no timeout, such as MPI_Init_thread, from a separate thread during the lifetime of
/// the object. After `seconds` (0: never; time in which this process was stopped does not count) it calls
/// `late`; when `stop_requested` (may be empty) returns true it calls `stopped`. Both end the process. If the
/// system starts no thread, the call is not watched.
class Guard {
 public:
  struct Actions {
    std::function<void()> late;
    std::function<bool()> stop_requested = {};
    std::function<void()> stopped = {};
  };

  Guard(double seconds, Actions actions);
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  void watch(double seconds);

  Actions actions_;
  std::mutex mutex_;
  std::condition_variable ends_;
  bool over_ = false;
  std::thread thread_;  // the last: it uses the others
};

/// The state of a process of this host: "stopped", "waiting for a disk", "gone"; "" if it runs or sleeps
/// normally.
std::string state_of_process(int pid);

/// For messages, when MPI is not available: the ranks of the same job on this host that are stopped, wait for
/// a disk or are absent, by the environment that the launcher gave them; "" if there are none.
std::string describe_local_ranks();
/// Whether a rank of the same job that the launcher started on this host has ended.
bool a_local_rank_is_gone();

/// A number that the launcher gave this process in its environment: the first of the variables that is set,
/// or `otherwise`.
int number_of_launcher(std::initializer_list<const char*> variables, int otherwise);

}  // namespace ventris
