// SPDX-License-Identifier: Apache-2.0
#include "comm/gradient_reducer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "backend/device/context.h"
#include "backend/device/error.h"
#include "tests/comm/rank_test.h"
#include "tests/support/tolerance.h"

namespace ventris {
namespace {

using testing::world;

Tensor flat(std::vector<float>& data) {
  const auto count = static_cast<int64_t>(data.size());
  return {data.data(), 1, count, count, DType::kF32};
}

// Small whole numbers: their sums are exact in any order, so that a plain sum is the oracle bit by bit.
void fill(std::vector<float>& data, int step) {
  for (size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<float>(
        (i * 31 + static_cast<size_t>(step) * 7 + static_cast<size_t>(world().rank()) * 13) % 1009);
  }
}

TEST(GradientReducer, SumsLikeOnePlainSumForEveryBucketSizeAndOrderOfReadiness) {
  constexpr int64_t kSize = 1037;
  Context context({.threads = 1});
  for (const int64_t bucket_bytes : {1, 4, 12, 256, 1000, 4096, 4147, 4148, 4149, 1 << 20}) {
    for (const int64_t stride : {1, 100, 1037}) {
      std::vector<float> data(kSize);
      GradientReducer reducer(context, world(), flat(data), DType::kF32, bucket_bytes);
      for (int step = 0; step < 2; ++step) {
        fill(data, step);
        std::vector<float> expected = data;
        world().all_reduce_sum(flat(expected));
        for (int64_t begin = kSize; begin > 0; begin = std::max<int64_t>(0, begin - stride))
          reducer.ready(begin);
        reducer.ready(0);
        reducer.finish();
        ASSERT_EQ(data, expected) << bucket_bytes << " bytes a bucket, ready by " << stride << ", step "
                                  << step;
      }
    }
  }
}

TEST(GradientReducer, DoesNotTouchWhatIsNotReady) {
  Context context({.threads = 1});
  std::vector<float> data(64, 1.0F);
  GradientReducer reducer(context, world(), flat(data), DType::kF32, 64);  // four buckets of 16
  reducer.ready(40);                                                       // completes [48, 64) only
  for (size_t i = 0; i < 48; ++i) data[i] = 5.0F;                          // backward still writes here
  reducer.ready(0);
  reducer.finish();
  const auto ranks = static_cast<float>(world().size());
  for (size_t i = 0; i < data.size(); ++i) EXPECT_EQ(data[i], (i < 48 ? 5.0F : 1.0F) * ranks) << i;
}

TEST(GradientReducer, RefusesToFinishBeforeAllIsReady) {
  Context context({.threads = 1});
  std::vector<float> data(64, 1.0F);
  GradientReducer reducer(context, world(), flat(data), DType::kF32, 64);
  reducer.ready(32);
  EXPECT_THROW(reducer.finish(), Error);
  reducer.ready(0);
  reducer.finish();
}

TEST(GradientReducer, LeavesEachRankTheSumsOfItsOwnElements) {
  Context context({.threads = 1});
  const int64_t unit = ShardPlan::unit();
  for (const int64_t size : {unit - 7, world().size() * 2 * unit, 20 * unit + 1}) {
    const ShardPlan owners(size, 1 << 18, world().size(), 3 * unit);
    std::vector<float> data(static_cast<size_t>(size));
    GradientReducer reducer(context, world(), flat(data), owners);
    for (int step = 0; step < 2; ++step) {
      fill(data, step);
      std::vector<float> expected = data;
      world().all_reduce_sum(flat(expected));
      for (int64_t begin = size; begin > 0; begin -= 70'000) reducer.ready(begin);
      reducer.ready(0);
      reducer.finish();
      for (const TreeNode& own : owners.ranges_of(world().rank())) {
        EXPECT_TRUE(
            std::equal(data.begin() + own.begin, data.begin() + own.end, expected.begin() + own.begin))
            << size << " in step " << step;
      }
    }
  }
}

// Numbers of either sign and of all sizes that gradients have.
void fill_with_fractions(std::vector<float>& data) {
  for (size_t i = 0; i < data.size(); ++i) {
    const auto k = static_cast<float>((i * 37 + static_cast<size_t>(world().rank()) * 101) % 1009);
    data[i] = (k - 504.0F) / 77.0F * std::pow(10.0F, -static_cast<float>(i % 7));
  }
}

TEST(GradientReducer, SumsInBf16AreCloseToThoseInF32AndHaveTheSameBitsOnEveryRank) {
  Context context({.threads = 1});
  std::vector<float> data(70'001);
  fill_with_fractions(data);
  std::vector<float> expected = data;
  std::vector<float> sizes(data.size());  // sums of absolute values
  for (size_t i = 0; i < data.size(); ++i) sizes[i] = std::abs(data[i]);
  world().all_reduce_sum(flat(expected));
  world().all_reduce_sum(flat(sizes));
  GradientReducer reducer(context, world(), flat(data), DType::kBF16, 1 << 15);
  for (int64_t begin = 60'000; begin > 0; begin -= 9'000) reducer.ready(begin);
  reducer.ready(0);
  reducer.finish();
  const double relative = testing::tolerance_of(DType::kBF16).relative;
  bool rounded = false;
  for (size_t i = 0; i < data.size(); ++i) {
    ASSERT_LE(std::abs(data[i] - expected[i]), relative * sizes[i])
        << i << ": " << data[i] << " " << expected[i];
    rounded = rounded || data[i] != expected[i];
  }
  EXPECT_EQ(rounded, world().size() > 1) << "one rank rounds nothing";
  const std::string bytes(reinterpret_cast<const char*>(data.data()), data.size() * sizeof(float));
  for (const std::string& other : world().all_gather(bytes)) EXPECT_TRUE(other == bytes);
}

TEST(GradientReducer, SumsInBf16AreNotFiniteWhereATermIsNot) {
  Context context({.threads = 1});
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> data(3, 1.0F);
  if (world().rank() == world().size() - 1) data[1] = std::nanf("");
  if (world().rank() == 0) data[2] = infinity;
  GradientReducer reducer(context, world(), flat(data), DType::kBF16);
  reducer.ready(0);
  reducer.finish();
  EXPECT_EQ(data[0], static_cast<float>(world().size()));
  EXPECT_TRUE(std::isnan(data[1]));
  EXPECT_EQ(data[2], infinity);
}

}  // namespace
}  // namespace ventris
