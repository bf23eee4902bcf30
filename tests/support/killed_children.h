#pragma once

#include <pthread.h>
#include <unistd.h>

#include <csignal>

namespace ventris::testing {

/// While one lives, SIGKILL ends so many children of this process as soon as they are forked, as a system
/// that is out of memory may.
class KilledChildren {
 public:
  explicit KilledChildren(int count) {
    static const int registered = ::pthread_atfork(nullptr, &in_parent, &in_child);
    static_cast<void>(registered);
    left_ = count;
  }
  ~KilledChildren() { left_ = 0; }
  KilledChildren(const KilledChildren&) = delete;
  KilledChildren& operator=(const KilledChildren&) = delete;

 private:
  static void in_parent() {
    if (left_ > 0) --left_;
  }
  static void in_child() {
    if (left_ > 0) ::kill(::getpid(), SIGKILL);
  }

  static inline int left_ = 0;
};

}  // namespace ventris::testing
