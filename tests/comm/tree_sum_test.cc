// SPDX-License-Identifier: Apache-2.0
#include "comm/tree_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "backend/device/context.h"
#include "backend/device/error.h"
#include "comm/shard_plan.h"
#include "comm/tree_reducer.h"
#include "tests/comm/rank_test.h"
#include "tests/comm/simulated_ranks.h"
#include "tests/comm/tree_terms.h"

namespace ventris {
namespace {

using testing::flat;
using testing::SimulatedRanks;

/// The buffers of a rank with their reducer.
struct RankBuffers {
  std::vector<float> gradients;
  std::vector<double> losses = {0.0, 0.0};
  std::unique_ptr<TreeReducer> reducer;
};

/// A step of simulated ranks, after which they have their sums. `owners`: of the sums, or null for all ranks.
std::vector<RankBuffers> step_of(Context& context, SimulatedRanks& job, int ranks, int64_t shards,
                                 size_t elements, int64_t bucket_bytes, const ShardPlan* owners = nullptr) {
  std::vector<RankBuffers> all(static_cast<size_t>(ranks));
  for (size_t rank = 0; rank < all.size(); ++rank) {
    RankBuffers& own = all[rank];
    own.gradients.resize(elements);
    Communicator& communicator = job.rank(rank);
    own.reducer = owners == nullptr
                      ? std::make_unique<TreeReducer>(context, communicator, shards, flat(own.gradients),
                                                      flat(own.losses), bucket_bytes)
                      : std::make_unique<TreeReducer>(context, communicator, shards, flat(own.gradients),
                                                      flat(own.losses), *owners);
    const TreeNode share = share_of_rank(shards, static_cast<int>(rank), ranks);
    for (int64_t shard = share.begin; shard < share.end; ++shard) {
      for (size_t i = 0; i < elements; ++i) own.gradients[i] += testing::gradient(shard, i, 0);
      for (int which = 0; which < 2; ++which)
        own.losses[static_cast<size_t>(which)] += testing::loss(shard, which);
      if (shard + 1 < share.end) own.reducer->set_aside(shard);
    }
    own.reducer->loss_ready();
    for (auto begin = static_cast<int64_t>(elements); begin > 0; begin -= 300) own.reducer->ready(begin);
    own.reducer->ready(0);
    own.reducer->finish();
  }
  job.carry_out();
  return all;
}

std::vector<float> expected_sums(int64_t shards, size_t elements) {
  std::vector<float> sums(elements);
  for (size_t i = 0; i < elements; ++i)
    sums[i] = testing::tree_sum<float>(0, shards, [&](int64_t s) { return testing::gradient(s, i, 0); });
  return sums;
}

/// Every rank in a process of its own would only repeat the simulation.
class TreeSumTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (testing::world().rank() != 0) GTEST_SKIP() << "rank 0 simulates all ranks";
  }
  Context context_{ContextOptions{.threads = 1}};
};

TEST_F(TreeSumTest, HasTheBitsOfTheTreeForAnyRanks) {
  constexpr size_t kElements = 701;
  for (int ranks = 2; ranks <= 24; ++ranks) {
    for (const int64_t shards : {1, 3, 8, 24, ranks, 2 * ranks + 1}) {
      const std::vector<float> expected = expected_sums(shards, kElements);
      SimulatedRanks job(ranks);
      const int64_t bucket_bytes = ranks % 3 == 0 ? 4 : ranks % 3 == 1 ? 512 * 4 : 1 << 20;
      for (const RankBuffers& of : step_of(context_, job, ranks, shards, kElements, bucket_bytes)) {
        ASSERT_EQ(of.gradients, expected) << shards << " shards on " << ranks << " ranks";
        for (int which = 0; which < 2; ++which) {
          const auto loss =
              testing::tree_sum<double>(0, shards, [&](int64_t s) { return testing::loss(s, which); });
          ASSERT_EQ(of.losses[static_cast<size_t>(which)], loss) << shards << " shards";
        }
      }
    }
  }
}

TEST_F(TreeSumTest, IsRefusedBeforeAllIsReadyAndTheLastShardIsNotSetAside) {
  SimulatedRanks job(2);
  std::vector<float> gradients(64);
  std::vector<double> losses(2);
  TreeReducer reducer(context_, job.rank(0), 4, flat(gradients), flat(losses), 64);
  EXPECT_THROW(reducer.finish(), Error);
  EXPECT_THROW(reducer.set_aside(1), Error);
  reducer.set_aside(0);
  reducer.ready(0);
  EXPECT_THROW(reducer.finish(), Error) << "without the loss";
  reducer.loss_ready();
  reducer.finish();
}

TEST_F(TreeSumTest, GivesOwnersTheirSegments) {
  constexpr size_t kElements = 300'001;
  for (const int ranks : {6, 9}) {
    const std::vector<float> expected = expected_sums(ranks + 1, kElements);
    const ShardPlan owners(kElements, 1 << 20, ranks);
    SimulatedRanks job(ranks);
    const auto sums = step_of(context_, job, ranks, ranks + 1, kElements, 0, &owners);
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<float>& got = sums[static_cast<size_t>(rank)].gradients;
      for (const TreeNode& range : owners.ranges_of(rank)) {
        ASSERT_TRUE(
            std::equal(got.begin() + range.begin, got.begin() + range.end, expected.begin() + range.begin))
            << "rank " << rank << " of " << ranks;
      }
    }
  }
}

TEST_F(TreeSumTest, EveryRankSendsItsPartialSumsAndItsSegmentOnce) {
  constexpr int kRanks = 6;
  constexpr int64_t kElements = 1024 * kRanks;
  std::vector<std::vector<float>> data(kRanks, std::vector<float>(kElements, 1.0F));
  std::vector<std::vector<float>> received(kRanks);
  std::vector<TreeLayout> layouts;
  for (int rank = 0; rank < kRanks; ++rank) layouts.emplace_back(kRanks, rank, kRanks);
  SimulatedRanks job(kRanks);
  for (size_t rank = 0; rank < kRanks; ++rank) {
    const int64_t room = TreeSum::room_for(layouts[rank], kElements);
    EXPECT_EQ(room, (kRanks - 1) * 1024);
    received[rank].resize(static_cast<size_t>(room));
    job.rank(rank).start_tree_sum({.context = &context_,
                                   .layout = &layouts[rank],
                                   .partials = {flat(data[rank])},
                                   .result = flat(data[rank]),
                                   .received = flat(received[rank])});
  }
  job.carry_out();
  for (size_t rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(data[rank], std::vector<float>(kElements, kRanks));
    EXPECT_EQ(job.sent()[rank], 2 * (kRanks - 1) * 1024 * 4);
  }
}

}  // namespace
}  // namespace ventris
