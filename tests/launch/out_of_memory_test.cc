// SPDX-License-Identifier: Apache-2.0
#include "launch/out_of_memory.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <new>
#include <system_error>

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

TEST(OutOfMemoryDeathTest, EndsWithTheCodeOfWhatLacks) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto end = [](int error) {
    install_out_of_memory_handler();
    throw_past_the_last_frame(error);
  };
  EXPECT_EXIT(end(0), ::testing::ExitedWithCode(70), "out of memory in code that cannot recover");
  EXPECT_EXIT(end(EAGAIN), ::testing::ExitedWithCode(69), "the system cannot start another thread");
  EXPECT_EXIT(end(ENOMEM), ::testing::ExitedWithCode(69), "the system cannot start another thread");
  EXPECT_EXIT(end(EPERM), ::testing::KilledBySignal(SIGABRT), "Operation not permitted");
}

}  // namespace
}  // namespace ventris
