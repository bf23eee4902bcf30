// SPDX-License-Identifier: Apache-2.0
#include "backend/device/thread_pool.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "backend/device/context.h"
#include "backend/device/device.h"
#include "backend/device/error.h"

namespace ventris {
namespace {

TEST(ThreadPool, CallsTheBodyOnceForEachIndex) {
  for (const int threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const int64_t count : {0, 1, 2, 7, 1000}) {
      std::vector<int> calls(static_cast<size_t>(count));
      pool.for_each(count, [&](int64_t index, int thread) {
        EXPECT_TRUE(thread >= 0 && thread < threads);
        ++calls[static_cast<size_t>(index)];
      });
      EXPECT_EQ(std::count(calls.begin(), calls.end(), 1), count);
    }
  }
}

TEST(ThreadPool, RunsManyShortJobsOneAfterTheOther) {
  ThreadPool pool(3);
  std::vector<int64_t> sums(8);
  for (int job = 0; job < 5000; ++job) {
    pool.for_each(8, [&](int64_t index, int) { sums[static_cast<size_t>(index)] += job; });
  }
  for (const int64_t sum : sums) EXPECT_EQ(sum, 5000 * 4999 / 2);
}

TEST(ThreadPool, WakesThreadsThatWentToSleep) {
  ThreadPool pool(2);
  for (int job = 0; job < 5; ++job) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    // Each of the two calls waits for the other: one thread alone would never come to an end.
    std::atomic<int> arrived{0};
    pool.for_each(2, [&](int64_t, int) {
      ++arrived;
      while (arrived.load() < 2) std::this_thread::yield();
    });
    EXPECT_EQ(arrived.load(), 2);
  }
}

TEST(ThreadPool, CutsRangesByTheirLengthAlone) {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    std::vector<std::pair<int64_t, int64_t>> ranges(3);
    pool.for_ranges(25, 10, [&](int64_t begin, int64_t end, int) {
      ranges[static_cast<size_t>(begin / 10)] = {begin, end};
    });
    EXPECT_EQ(ranges, (std::vector<std::pair<int64_t, int64_t>>{{0, 10}, {10, 20}, {20, 25}}));
    pool.for_ranges(0, 10, [&](int64_t, int64_t, int) { ADD_FAILURE() << "an empty range has no piece"; });
  }
}

TEST(ThreadPool, ThrowsTheExceptionOfABodyInTheCallerAndGoesOn) {
  for (const int threads : {1, 2}) {
    ThreadPool pool(threads);
    EXPECT_THROW(pool.for_each(100,
                               [](int64_t index, int) {
                                 if (index == 37) throw std::runtime_error("37");
                               }),
                 std::runtime_error);
    std::atomic<int> calls{0};
    pool.for_each(10, [&](int64_t, int) { ++calls; });
    EXPECT_EQ(calls.load(), 10);
  }
}

TEST(ThreadPool, HoldsOpenMpToOneThread) {
  ThreadPool pool(2);
  pool.for_each(16, [](int64_t, int) { EXPECT_EQ(omp_get_max_threads(), 1); });
}

TEST(ThreadPool, RefusesToHaveNoThread) {
  EXPECT_THROW(ThreadPool(0), Error);
}

TEST(Context, GrowsItsScratchMemoryWhenNothingIsInUse) {
  Context context({.threads = 1, .scratch_bytes = 1024});
  context.reserve_scratch(1 << 20);
  {
    const ArenaScope scope(context.scratch());
    EXPECT_NE(context.scratch().allocate(1 << 20), nullptr);
    EXPECT_THROW(context.reserve_scratch(1 << 21), Error);
  }
  const size_t capacity = context.scratch().capacity();
  context.reserve_scratch(10);
  EXPECT_EQ(context.scratch().capacity(), capacity);
}

TEST(Context, RefusesADeviceThatTheBuildDoesNotHave) {
  EXPECT_THROW(Context({.threads = 0}), Error);
  const std::string reason = cuda_unavailable_reason();
  if (cuda_build() != "no") GTEST_SKIP() << "built with CUDA: " << reason;
  EXPECT_EQ(cuda_device_count(), 0);
  EXPECT_NE(reason.find("built without CUDA"), std::string::npos);
  EXPECT_THROW(cuda_device_name(0), Error);
  EXPECT_THROW(cuda_device_identity(0), Error);
  try {
    Context context({.device = Device::kCuda});
    FAIL() << "a context without its device";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUnavailable);
    EXPECT_NE(std::string(error.what()).find(reason), std::string::npos);
  }
}

}  // namespace
}  // namespace ventris
