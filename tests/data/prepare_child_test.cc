// SPDX-License-Identifier: Apache-2.0
#include "data/prepare_child.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "data/error.h"

namespace ventris::data {
namespace {

/// The DataError that `work` ends with in a child.
DataError error_of(const std::function<std::string(const ProgressCall&)>& work) {
  try {
    run_in_child(work, nullptr, "it left");
  } catch (const DataError& error) {
    return error;
  }
  return DataError(ErrorKind::kIo, "it ended well");
}

TEST(PrepareChildTest, GivesBackWhatTheWorkReturns) {
  std::string phase;
  const std::string result = run_in_child(
      [](const ProgressCall& progress) {
        progress({"reading", 0, 0, 0});
        return std::string(1 << 20, 'x');
      },
      [&](const PrepareProgress& progress) { phase = progress.phase; }, "it left");
  EXPECT_EQ(result, std::string(1 << 20, 'x'));
  EXPECT_EQ(phase, "reading");
}

TEST(PrepareChildTest, TellsHowTheWorkEnded) {
  const DataError thrown =
      error_of([](const ProgressCall&) -> std::string { throw DataError(ErrorKind::kIo, "no room"); });
  EXPECT_EQ(thrown.kind(), ErrorKind::kIo);
  EXPECT_STREQ(thrown.what(), "no room");
  EXPECT_STREQ(error_of([](const ProgressCall&) -> std::string { std::exit(0); }).what(), "it left");
  const DataError killed = error_of([](const ProgressCall&) -> std::string { std::abort(); });
  EXPECT_EQ(killed.kind(), ErrorKind::kUnavailable);
  EXPECT_NE(std::string(killed.what()).find("signal 6"), std::string::npos) << killed.what();
}

TEST(PrepareChildTest, ThreadsThatFindNoMemoryTogetherSayItOnce) {
  for (int attempt = 0; attempt < 50; ++attempt) {
    const DataError error = error_of([](const ProgressCall& progress) -> std::string {
      std::atomic<int> missing = 8;
      std::vector<std::thread> threads;
      for (int i = 0; i < 8; ++i) {
        threads.emplace_back([&] {
          --missing;
          while (missing > 0) {
          }
          throw std::bad_alloc();
        });
      }
      for (;;) progress({"counting", 0, 0, 0});
    });
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
    ASSERT_EQ(std::string(error.what()).substr(0, 26), "there is not enough memory") << error.what();
  }
}

}  // namespace
}  // namespace ventris::data
