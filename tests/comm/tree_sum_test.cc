// SPDX-License-Identifier: Apache-2.0
#include "comm/tree_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "backend/context.h"
#include "comm/shard_plan.h"
#include "comm/tree_reducer.h"
#include "tests/comm/pretended_hosts.h"
#include "tests/comm/rank_test.h"
#include "tests/comm/simulated_ranks.h"
#include "tests/comm/tree_terms.h"

namespace ventris {
namespace {

using testing::flat;
using testing::SentBytes;
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

/// Placements of `ranks` ranks: those of some_hosts(), consecutive hosts of 3, 4 and 8, and any.
std::vector<std::vector<int>> placements(int ranks) {
  std::vector<std::vector<int>> all = testing::some_hosts(ranks);
  for (const int of_a_host : {3, 4, 8}) {
    if (of_a_host < ranks) all.push_back(consecutive_hosts(ranks, of_a_host));
  }
  std::mt19937 draw(static_cast<unsigned>(ranks));
  for (int i = 0; i < 3; ++i) {
    std::vector<int> hosts;
    for (int rank = 0; rank < ranks; ++rank) hosts.push_back(static_cast<int>(draw() % 4));
    all.push_back(hosts);
    std::sort(hosts.begin(), hosts.end());  // consecutive, of unequal sizes
    all.push_back(hosts);
  }
  return all;
}

TEST_F(TreeSumTest, HasTheBitsOfTheTreeForAnyRanksOnAnyHosts) {
  constexpr size_t kElements = 701;
  for (int ranks = 2; ranks <= 24; ++ranks) {
    for (const int64_t shards : {1, 3, 8, 24, ranks, 2 * ranks + 1}) {
      const std::vector<float> expected = expected_sums(shards, kElements);
      for (const std::vector<int>& hosts : placements(ranks)) {
        SimulatedRanks job(hosts);
        const auto sums = step_of(context_, job, ranks, shards, kElements, 512 * 4);
        for (const RankBuffers& of : sums) {
          ASSERT_EQ(of.gradients, expected)
              << shards << " shards on " << ranks << " ranks on " << ::testing::PrintToString(hosts);
          for (int which = 0; which < 2; ++which) {
            const auto loss =
                testing::tree_sum<double>(0, shards, [&](int64_t s) { return testing::loss(s, which); });
            ASSERT_EQ(of.losses[static_cast<size_t>(which)], loss) << shards << " shards";
          }
        }
      }
    }
  }
}

TEST_F(TreeSumTest, GivesOwnersTheirSegments) {
  constexpr size_t kElements = 300'001;
  for (const int ranks : {6, 9}) {
    const std::vector<float> expected = expected_sums(ranks + 1, kElements);
    const ShardPlan owners(kElements, 1 << 20, ranks);
    for (const std::vector<int>& hosts : placements(ranks)) {
      SimulatedRanks job(hosts);
      const auto sums = step_of(context_, job, ranks, ranks + 1, kElements, 0, &owners);
      for (int rank = 0; rank < ranks; ++rank) {
        const std::vector<float>& got = sums[static_cast<size_t>(rank)].gradients;
        for (const TreeNode& range : owners.ranges_of(rank)) {
          ASSERT_TRUE(
              std::equal(got.begin() + range.begin, got.begin() + range.end, expected.begin() + range.begin))
              << "rank " << rank << " of " << ::testing::PrintToString(hosts);
        }
      }
    }
  }
}

/// The bytes of a sum of n elements, n a multiple of 16 for each rank, with a shard for each rank.
std::vector<SentBytes> bytes_of_a_sum(Context& context, const std::vector<int>& hosts,
                                      const std::vector<int>& counted_hosts, int64_t n) {
  SimulatedRanks job(hosts, counted_hosts);
  const auto ranks = static_cast<int>(hosts.size());
  std::vector<std::vector<float>> data(hosts.size(), std::vector<float>(static_cast<size_t>(n), 1.0F));
  std::vector<std::vector<float>> received(hosts.size());
  std::vector<std::unique_ptr<TreeLayout>> layouts;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    layouts.push_back(std::make_unique<TreeLayout>(ranks, static_cast<int>(rank), hosts));
    received[rank].resize(static_cast<size_t>(TreeSum::room_for(*layouts.back(), n)));
    job.rank(rank).start_tree_sum({.context = &context,
                                   .layout = layouts.back().get(),
                                   .partials = {flat(data[rank])},
                                   .result = flat(data[rank]),
                                   .received = flat(received[rank])});
  }
  job.carry_out();
  for (const std::vector<float>& of_rank : data) EXPECT_EQ(of_rank[0], static_cast<float>(ranks));
  return job.sent();
}

int64_t between_hosts(const std::vector<SentBytes>& sent) {
  int64_t bytes = 0;
  for (const SentBytes& of_rank : sent) bytes += of_rank.between_hosts;
  return bytes;
}

TEST_F(TreeSumTest, OneNodeOfAHostGoesToOthersAndEveryRankSendsAsMuch) {
  struct Shape {
    int hosts, of_a_host, sums_of_a_host;
  };
  for (const auto& [hosts, of_a_host, sums] : {Shape{2, 4, 1}, {4, 2, 1}, {2, 8, 1}, {8, 2, 1}, {3, 4, 1}}) {
    const int ranks = hosts * of_a_host;
    const int64_t n = 1024 * ranks;
    const std::vector<int> placed = consecutive_hosts(ranks, of_a_host);
    EXPECT_EQ(partial_sums_of_a_host(ranks, placed), sums);
    for (const SentBytes& sent : bytes_of_a_sum(context_, placed, placed, n)) {
      EXPECT_EQ(sent.in_host, 2 * (4 * n) * (of_a_host - 1) / of_a_host);
      EXPECT_EQ(sent.between_hosts, 2 * (4 * n) * (hosts - 1) / ranks);
    }
    // Without hosts: as much as each of the ranks, not each of the hosts, must send to others.
    std::vector<int> alone = consecutive_hosts(ranks, 1);
    for (const SentBytes& sent : bytes_of_a_sum(context_, alone, placed, n))
      EXPECT_EQ(sent.between_hosts, 2 * (4 * n) * (ranks - of_a_host) / ranks);
  }
}

TEST_F(TreeSumTest, WhatIsNoNodeOfTheTreeStillSendsLessThanWithoutHosts) {
  const std::vector<int> alone = consecutive_hosts(9, 1);
  const int64_t n = 9 * 1024;
  const auto without = between_hosts(bytes_of_a_sum(context_, alone, consecutive_hosts(9, 3), n));
  EXPECT_EQ(without, 9 * 2 * (4 * n) * 6 / 9);
  // Three hosts of three: shards 0 to 2 are two nodes of the tree, and so are 3 to 5 and 6 to 8. Two sums of
  // a host instead of three go to their owners, and one result instead of three to a host.
  EXPECT_EQ(partial_sums_of_a_host(9, consecutive_hosts(9, 3)), 2);
  const auto sent = bytes_of_a_sum(context_, consecutive_hosts(9, 3), consecutive_hosts(9, 3), n);
  for (const SentBytes& of_rank : sent) EXPECT_EQ(of_rank.between_hosts, 3 * (4 * n) * 2 / 9);
  // In turn: each shard alone, but still one result to a host.
  const std::vector<int> in_turn = {0, 1, 2, 0, 1, 2, 0, 1, 2};
  EXPECT_EQ(between_hosts(bytes_of_a_sum(context_, alone, in_turn, n)), without);
  EXPECT_EQ(between_hosts(bytes_of_a_sum(context_, in_turn, in_turn, n)), (9 + 3) * (4 * n) * 2 / 3);
}

TEST_F(TreeSumTest, HostsOfUnequalSizesShareTheirSlicesEqually) {
  const std::vector<int> placed = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3};
  const int64_t n = 1024 * 12;
  const auto sent = bytes_of_a_sum(context_, placed, placed, n);
  EXPECT_EQ(between_hosts(sent), 2 * (4 * n) * 3);
  for (size_t rank = 0; rank < sent.size(); ++rank) {
    const int64_t of_a_host = rank < 8 ? 4 : 2;
    // Its part of the partial sums of its host, and its segment's sum to three others.
    EXPECT_EQ(sent[rank].between_hosts, (4 * n) / of_a_host * (12 - of_a_host) / 12 + 3 * (4 * n) / 12)
        << rank;
    EXPECT_EQ(sent[rank].in_host, 2 * (4 * n) * (of_a_host - 1) / of_a_host) << rank;
  }
}

TEST_F(TreeSumTest, ARankAddsOnceInItsHostAndOnceBetweenHosts) {
  for (const auto& [hosts, additions] : {std::pair{consecutive_hosts(8, 4), 2U},
                                         {consecutive_hosts(8, 8), 1U},
                                         {consecutive_hosts(8, 1), 1U}}) {
    SimulatedRanks job(hosts);
    step_of(context_, job, 8, 8, 4096, 1024 * 4);
    EXPECT_EQ(job.additions(), additions);
  }
}

TEST_F(TreeSumTest, RoomIsNoMoreThanWithoutHosts) {
  for (const int of_a_host : {1, 2, 4, 8}) {
    const TreeLayout layout(8, 5, consecutive_hosts(8, of_a_host));
    EXPECT_EQ(TreeSum::room_for(layout, 8 * 1024), 7 * 1024);
  }
}

TEST_F(TreeSumTest, GatherersOfAHostShareEverySegment) {
  for (const std::vector<int>& hosts : placements(11)) {
    const TreeLayout layout(11, 0, hosts);
    for (int owner = 0; owner < 11; ++owner) {
      const TreeNode segment = {1000, 1000 + 16 * 37 + 5};
      for (const std::vector<int>& host : layout.members()) {
        int64_t next = segment.begin;
        for (const int gatherer : host) {
          const TreeNode part = layout.gathered(segment, owner, gatherer);
          EXPECT_EQ(part.begin, next);
          next = part.end;
          const bool one_host = layout.host_of(owner) == layout.host_of(gatherer);
          EXPECT_TRUE(!one_host || part.size() == (owner == gatherer ? segment.size() : 0));
        }
        EXPECT_EQ(next, segment.end);
      }
    }
  }
}

TEST_F(TreeSumTest, TellsWhatRanksThatAreNotConsecutiveCost) {
  EXPECT_EQ(cost_of_placement(8, consecutive_hosts(8, 4)), "");
  EXPECT_EQ(cost_of_placement(8, consecutive_hosts(8, 8)), "");
  EXPECT_EQ(cost_of_placement(8, {0, 1, 2, 3, 4, 5, 6, 7}), "");
  const std::string cost = cost_of_placement(8, {5, 3, 5, 3, 5, 3, 5, 3});
  EXPECT_NE(cost.find("4 partial sums of a host go to others, and not 1"), std::string::npos) << cost;
  EXPECT_NE(cost.find("--map-by slot"), std::string::npos) << cost;
}

}  // namespace
}  // namespace ventris
