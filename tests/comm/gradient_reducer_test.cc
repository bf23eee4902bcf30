#include "comm/gradient_reducer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "backend/error.h"
#include "tests/comm/rank_test.h"

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
  for (const int64_t bucket_bytes : {1, 4, 12, 256, 1000, 4096, 4147, 4148, 4149, 1 << 20}) {
    for (const int64_t stride : {1, 100, 1037}) {
      std::vector<float> data(kSize);
      GradientReducer reducer(world(), flat(data), bucket_bytes);
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
  std::vector<float> data(64, 1.0F);
  GradientReducer reducer(world(), flat(data), 64);  // four buckets of 16
  reducer.ready(40);                                 // completes [48, 64) only
  for (size_t i = 0; i < 48; ++i) data[i] = 5.0F;    // backward still writes here
  reducer.ready(0);
  reducer.finish();
  const auto ranks = static_cast<float>(world().size());
  for (size_t i = 0; i < data.size(); ++i) EXPECT_EQ(data[i], (i < 48 ? 5.0F : 1.0F) * ranks) << i;
}

TEST(GradientReducer, RefusesToFinishBeforeAllIsReady) {
  std::vector<float> data(64, 1.0F);
  GradientReducer reducer(world(), flat(data), 64);
  reducer.ready(32);
  EXPECT_THROW(reducer.finish(), Error);
  reducer.ready(0);
  reducer.finish();
}

TEST(GradientReducer, LargeBuffersInSmallBucketsAgreeWithOnePlainSum) {
  std::vector<float> data(3'000'001);
  fill(data, 0);
  std::vector<float> expected = data;
  world().all_reduce_sum(flat(expected));
  GradientReducer reducer(world(), flat(data), 1 << 20);
  for (int64_t begin = 3'000'001; begin > 0; begin -= 250'000) reducer.ready(begin);
  reducer.ready(0);
  reducer.finish();
  EXPECT_TRUE(data == expected);
}

}  // namespace
}  // namespace ventris
