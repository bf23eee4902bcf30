// SPDX-License-Identifier: Apache-2.0
#include "comm/tree_reducer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "backend/context.h"
#include "backend/error.h"
#include "tests/comm/rank_test.h"
#include "tests/comm/tree_terms.h"

namespace ventris {
namespace {

using testing::flat;
using testing::gradient;
using testing::loss;
using testing::tree_sum;
using testing::world;

/// The buffers of a step with their reducer.
struct Step {
  Step(Context& context, int64_t shards, size_t elements, int64_t bucket_bytes)
      : gradients(elements),
        losses(2),
        reducer(context, world(), shards, flat(gradients), flat(losses), bucket_bytes),
        share(share_of_rank(shards, world().rank(), world().size())) {}

  /// Computes this rank's shards as training does and sums them; the gradients get ready by `stride`.
  template <typename Gradient>
  void run(const Gradient& gradient_of, int64_t stride) {
    for (int64_t shard = share.begin; shard < share.end; ++shard) {
      for (size_t i = 0; i < gradients.size(); ++i) gradients[i] += gradient_of(shard, i);
      for (int which = 0; which < 2; ++which) losses[static_cast<size_t>(which)] += loss(shard, which);
      if (shard + 1 < share.end) reducer.set_aside(shard);
    }
    reducer.loss_ready();
    for (auto begin = static_cast<int64_t>(gradients.size()); begin > 0;
         begin = std::max<int64_t>(0, begin - stride))
      reducer.ready(begin);
    reducer.ready(0);
    reducer.finish();
  }
  void clear() {
    std::fill(gradients.begin(), gradients.end(), 0.0F);
    std::fill(losses.begin(), losses.end(), 0.0);
  }

  std::vector<float> gradients;
  std::vector<double> losses;
  TreeReducer reducer;
  TreeNode share;
};

/// Expects two steps to have the sums by the definition of the tree.
void expect_sums_of_the_tree(Context& context, int64_t shards, int64_t bucket_bytes) {
  constexpr size_t kElements = 1037;
  Step step(context, shards, kElements, bucket_bytes);
  for (int number = 0; number < 2; ++number) {
    const auto of_shard = [&](int64_t shard, size_t i) { return gradient(shard, i, number); };
    step.run(of_shard, 300);
    for (size_t i = 0; i < kElements; ++i) {
      const auto expected = tree_sum<float>(0, shards, [&](int64_t s) { return of_shard(s, i); });
      ASSERT_EQ(step.gradients[i], expected) << i << ", " << shards << " shards, step " << number;
    }
    for (int which = 0; which < 2; ++which) {
      const auto expected = tree_sum<double>(0, shards, [&](int64_t s) { return loss(s, which); });
      ASSERT_EQ(step.losses[static_cast<size_t>(which)], expected) << shards;
    }
    step.clear();
  }
}

TEST(TreeReducer, AddsInTheOrderOfTheTreeForEveryNumberOfShardsAndEveryBucket) {
  Context context({.threads = 1});
  for (const int64_t shards : {1, 2, 3, 4, 5, 6, 7, 8, 13, 16}) {
    for (const int64_t bucket_bytes : {4, 256, 4096, 1 << 20})
      expect_sums_of_the_tree(context, shards, bucket_bytes);
  }
}

TEST(TreeReducer, TheNumberOfThreadsChangesNothing) {
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 3}) {
    Context context({.threads = threads});
    Step step(context, 8, 100'003, 1 << 18);
    step.run([](int64_t shard, size_t i) { return gradient(shard, i, 0); }, 40'000);
    results.push_back(step.gradients);
  }
  EXPECT_TRUE(results[0] == results[1]);
}

TEST(TreeReducer, RefusesToFinishBeforeAllIsReadyAndToSetTheLastShardAside) {
  Context context({.threads = 1});
  Step step(context, 2 * world().size(), 64, 64);
  EXPECT_THROW(step.reducer.finish(), Error);
  EXPECT_THROW(step.reducer.set_aside(step.share.end - 1), Error);
  step.reducer.set_aside(step.share.begin);
  step.reducer.ready(0);
  EXPECT_THROW(step.reducer.finish(), Error) << "without the loss";
  step.reducer.loss_ready();
  step.reducer.finish();
}

}  // namespace
}  // namespace ventris
