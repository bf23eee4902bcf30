#pragma once

#include <functional>
#include <string>

namespace ventris {

/// From now on SIGINT, SIGTERM, SIGUSR1 and SIGHUP ask train() to save and stop; SIGHUP not where it was
/// ignored (nohup). They are blocked in the calling thread and in all that it starts, and one thread waits
/// for them: no handler runs on the stack of a thread that computes, where oneDNN keeps data below the stack
/// pointer (docs/decisions.md). Called once, by main(), before there is another thread. The second SIGINT
/// ends the process as if it had not been blocked.
void watch_stop_signals();
bool stop_requested();
int stop_signal();                  // the last of them that came, or 0
std::string stop_text(int signal);  // the message to the user when it comes
/// From now on SIGTERM ends the process at once: this rank has failed, and it is the launcher's order to end.
void end_at_sigterm();

/// While it lives, hears of a first stop signal, and of the first SIGINT in any case, from the thread that
/// waits. At most one object.
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
