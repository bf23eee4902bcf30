// SPDX-License-Identifier: Apache-2.0
// Sums and parameters of owners: equal segments, one for each rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "backend/device/step_graph.h"
#include "comm/gradient_reducer.h"
#include "comm/shard_plan.h"
#include "tests/comm/emulated/device_ranks.h"

namespace ventris {
namespace {

using testing::DeviceRow;
using testing::expect_error;
using testing::expect_sums;
using testing::numbers;
using testing::sums_by_mpi;
using testing::world;

using DeviceSegments = testing::DeviceRanks;

/// Of equal segments of all ranks, that of this rank.
template <typename T>
std::vector<T> own_segment(const std::vector<T>& all) {
  const size_t count = all.size() / static_cast<size_t>(world().size());
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(count) * world().rank();
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

TEST_F(DeviceSegments, ReduceScatterLeavesEachRankTheSumsOfMpiInItsSegment) {
  for (const size_t of_a_rank : {1, 1000, 40009}) {
    const auto values = numbers<float>(of_a_rank * static_cast<size_t>(world().size()));
    DeviceRow<float> row(context(), values);
    communicator().start_reduce_scatter_sum(row.view());
    communicator().finish_reductions();
    expect_sums(own_segment(row.get()), own_segment(sums_by_mpi(values)));
  }
}

TEST_F(DeviceSegments, AllGatherSendsTheSegmentOfEachRankInEveryRangeAlsoInAGraph) {
  const auto ranks = static_cast<size_t>(world().size());
  DeviceRow<float> row(context(), std::vector<float>(ranks * 50'003));
  const auto first = static_cast<int64_t>(ranks * 3);
  const auto second = static_cast<int64_t>(ranks * 50'000);
  StepGraph graph(context(), /*capture=*/true);
  for (int run = 0; run < 4; ++run) {
    // As after an update, with the values of this rank in its segment.
    std::vector<float> expected;
    for (const int64_t count : {first, second}) {
      for (int64_t i = 0; i < count; ++i)
        expected.push_back(static_cast<float>(i * world().size() / count * 1000 + i % 997 + run));
    }
    std::vector<float> own(expected.size(), -1.0F);
    for (const auto& [begin, count] : {std::pair{int64_t{0}, first}, {first, second}}) {
      const int64_t part = count / world().size();
      std::copy_n(expected.begin() + begin + world().rank() * part, part,
                  own.begin() + begin + world().rank() * part);
    }
    row.fill(own);
    graph.run([&] {
      communicator().start_all_gather({row.view().col_range(0, first), row.view().col_range(first, second)});
      communicator().finish_reductions();
    });
    EXPECT_TRUE(row.get() == expected) << run;
  }
  communicator().start_all_gather({});
  communicator().finish_reductions();
}

TEST_F(DeviceSegments, TheReducerOfOwnersLeavesEachRankItsSumsAlsoInAGraph) {
  const int64_t unit = ShardPlan::unit();
  const ShardPlan owners(9 * unit + 5, 4 * unit * 4, world().size(), unit);
  EXPECT_GT(owners.buckets().count(), 1);
  EXPECT_FALSE(owners.in_equal_segments(owners.buckets().count() - 1));
  DeviceRow<float> row(context(), std::vector<float>(static_cast<size_t>(owners.elements())));
  GradientReducer reducer(context(), communicator(), row.view(), owners);
  StepGraph graph(context(), /*capture=*/true);
  for (int step = 0; step < 3; ++step) {
    const auto values = numbers<float>(static_cast<size_t>(owners.elements()), step);
    row.fill(values);
    graph.run([&] {
      for (const int64_t begin : {9 * unit, 5 * unit, 3 * unit, int64_t{0}}) reducer.ready(begin);
      reducer.finish();
    });
    const std::vector<float> got = row.get();
    const std::vector<float> sums = sums_by_mpi(values);
    for (const TreeNode& own : owners.ranges_of(world().rank())) {
      expect_sums(std::vector<float>(got.begin() + own.begin, got.begin() + own.end),
                  std::vector<float>(sums.begin() + own.begin, sums.begin() + own.end));
    }
  }
}

TEST_F(DeviceSegments, RanksThatAskForDifferentCollectivesFail) {
  const int64_t count = world().size() * (world().rank() == 0 ? 100 : 400);
  DeviceRow<float> row(context(), numbers<float>(static_cast<size_t>(count)));
  expect_error(ExitCode::kUnavailable, {}, [&] {
    communicator().start_all_gather({row.view()});
    communicator().finish_reductions();
    synchronize(context());
    communicator().progress();
  });
  world().barrier();
}

}  // namespace
}  // namespace ventris
