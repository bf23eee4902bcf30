// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

namespace ventris {

/// From now on SIGINT, SIGTERM, SIGUSR1 and SIGHUP request train() to save and stop; not SIGHUP if it was
/// ignored (nohup). They are blocked in the calling thread and in all that it starts, and one thread waits
/// for them: no handler runs on the stack of a thread that computes, where oneDNN keeps data below the stack
/// pointer (docs/dev/decisions.md). Must be called once, by main(), before other threads are started. The
/// second SIGINT ends the process as if it had not been blocked.
void watch_stop_signals();
bool stop_requested();
int stop_signal();                  // the last one received, or 0
std::string stop_text(int signal);  // the message to the user on receipt
/// From now on SIGTERM ends the process immediately: this rank has failed, and the launcher ends the job.
void end_at_sigterm();

/// During its lifetime, is called for the first stop signal and for the first SIGINT, on the waiting thread.
/// At most one object.
class StopNotice {
 public:
  explicit StopNotice(std::function<void(int signal)> notice);
  ~StopNotice();
  StopNotice(const StopNotice&) = delete;
  StopNotice& operator=(const StopNotice&) = delete;

 private:
  const std::function<void(int signal)> notice_;
};

}  // namespace ventris
