// SPDX-License-Identifier: Apache-2.0
#include "trainer/signals.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

namespace ventris {
namespace {

/// How a process ends that watches for signals, gets SIGTERM, and ends with 7 when it has heard of a stop.
int status_after_sigterm(bool has_failed) {
  const pid_t child = ::fork();
  if (child == 0) {
    watch_stop_signals();
    if (has_failed) end_at_sigterm();
    ::kill(::getpid(), SIGTERM);
    for (int i = 0; i < 1000 && !stop_requested(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ::_exit(stop_requested() ? 7 : 8);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

TEST(StopSignals, SigtermAsksForAStop) {
  const int status = status_after_sigterm(false);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
}

TEST(StopSignals, SigtermEndsAProcessThatHasFailed) {
  const int status = status_after_sigterm(true);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
}

}  // namespace
}  // namespace ventris
