// SPDX-License-Identifier: Apache-2.0
#include "launch/want_of_memory.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <barrier>
#include <cerrno>
#include <csignal>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace ventris {
namespace {

void throw_error(int error) {
  if (error == 0) throw std::bad_alloc();
  throw std::system_error(error, std::generic_category());
}

/// As in a thread where nobody catches it.
void throw_past_the_last_frame(int error) noexcept {
  throw_error(error);
}

TEST(WantOfMemoryDeathTest, EndsWithTheCodeOfWhatLacks) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto end = [](int error) {
    prepare_for_want_of_memory();
    throw_past_the_last_frame(error);
  };
  EXPECT_EXIT(end(0), ::testing::ExitedWithCode(70), "out of memory in code that cannot recover");
  EXPECT_EXIT(end(EAGAIN), ::testing::ExitedWithCode(69), "the system cannot start another thread");
  EXPECT_EXIT(end(ENOMEM), ::testing::ExitedWithCode(69), "the system cannot start another thread");
  EXPECT_EXIT(end(EPERM), ::testing::KilledBySignal(SIGABRT), "Operation not permitted");
}

/// What the process writes to its standard error when several threads meet the end of memory at once.
std::string told_by_threads(int threads) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe(ends.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    prepare_for_want_of_memory();
    std::barrier<> together(threads);
    std::vector<std::thread> all;
    for (int i = 0; i < threads; ++i) {
      all.emplace_back([&]() noexcept {
        together.arrive_and_wait();
        throw_error(0);
      });
    }
    for (std::thread& thread : all) thread.join();
    ::_exit(1);
  }
  ::close(ends[1]);
  std::string told;
  std::array<char, 4096> part{};
  for (ssize_t bytes = 0; (bytes = ::read(ends[0], part.data(), part.size())) > 0;)
    told.append(part.data(), static_cast<size_t>(bytes));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 70) << status;
  return told;
}

TEST(WantOfMemory, OneOfSeveralThreadsTells) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    const std::string told = told_by_threads(4);
    const size_t first = told.find("error: ");
    ASSERT_NE(first, std::string::npos) << told;
    EXPECT_EQ(told.find("error: ", first + 1), std::string::npos) << told;
  }
}

}  // namespace
}  // namespace ventris
