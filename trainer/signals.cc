// SPDX-License-Identifier: Apache-2.0
#include "trainer/signals.h"

#include <fmt/core.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "backend/device/error.h"

namespace ventris {
namespace {

std::atomic<int> last_signal = 0;
std::atomic<bool> sigterm_ends = false;
// Of types that need no destruction: the thread that waits lives until the process ends.
std::mutex notice_mutex;
const std::function<void(int)>* current_notice = nullptr;

/// Executes the default action of the signal on this thread, which ends the process with that signal.
void unblock(int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void notify(int signal) {
  const std::lock_guard lock(notice_mutex);
  if (current_notice != nullptr) (*current_notice)(signal);
}

void wait_for_signals(sigset_t set) {
  for (int signal = 0; sigwait(&set, &signal) == 0;) {
    if (signal == SIGTERM && sigterm_ends) {
      unblock(SIGTERM);
      std::raise(SIGTERM);
    }
    const bool first = last_signal.exchange(signal) == 0;
    if (signal == SIGINT) {  // does not wait for the next one, even if the report of this one hangs
      sigdelset(&set, SIGINT);
      unblock(SIGINT);
    }
    if (first || signal == SIGINT) notify(signal);
  }
}

}  // namespace

void watch_stop_signals() {
  struct sigaction inherited = {};
  sigaction(SIGHUP, nullptr, &inherited);
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGHUP}) {
    if (signal == SIGHUP && inherited.sa_handler == SIG_IGN) continue;
    std::signal(signal, SIG_DFL);  // shells start programs in the background with some of them ignored
    sigaddset(&set, signal);
  }
  VENTRIS_CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0, "signals cannot be blocked");
  std::thread(wait_for_signals, set).detach();
}

bool stop_requested() {
  return last_signal != 0;
}

int stop_signal() {
  return last_signal;
}

void end_at_sigterm() {
  sigterm_ends = true;
}

std::string stop_text(int signal) {
  if (signal == SIGINT) return "stopping after this step; again to quit without saving";
  const char* name = ::sigabbrev_np(signal);
  return fmt::format("received SIG{}; stopping after this step", name == nullptr ? "?" : name);
}

StopNotice::StopNotice(std::function<void(int signal)> notice) : notice_(std::move(notice)) {
  const std::lock_guard lock(notice_mutex);
  current_notice = &notice_;
}

StopNotice::~StopNotice() {
  const std::lock_guard lock(notice_mutex);
  if (current_notice == &notice_) current_notice = nullptr;
}

}  // namespace ventris
