// SPDX-License-Identifier: Apache-2.0
#include "trainer/inference/work_sharing.h"

#include <gtest/gtest.h>

#include <vector>

#include "comm/communicator.h"

namespace ventris {
namespace {

TEST(WorkSharing, CutsEverySentenceOnceAndDealsCostsEvenly) {
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < 1000; ++i) rows.push_back(i % 40);
  for (const int ranks : {1, 2, 3, 4, 7}) {
    const std::vector<Chunk> chunks =
        cut_into_chunks(rows, {.rows = 1500, .sentences = 60, .pieces = pieces_for(Device::kCpu, ranks)});
    std::vector<int> seen(rows.size(), 0);
    for (const Chunk& chunk : chunks) {
      int64_t sum = 0;
      for (const size_t index : chunk.sentences) {
        ++seen[index];
        sum += rows[index];
      }
      EXPECT_EQ(chunk.rows, sum);
      EXPECT_LE(sum, 1500);
      EXPECT_LE(chunk.sentences.size(), 60U);
    }
    for (size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(seen[i], rows[i] > 0 ? 1 : 0);
    std::vector<double> load(static_cast<size_t>(ranks), 0.0);
    double total = 0.0;
    const std::vector<int> dealt = deal_by_cost(chunks, ranks);
    for (size_t c = 0; c < chunks.size(); ++c) {
      load[static_cast<size_t>(dealt[c])] += chunks[c].cost;
      total += chunks[c].cost;
    }
    for (const double cost : load) EXPECT_NEAR(cost, total / ranks, 0.03 * total / ranks) << ranks;
  }
  // A sentence longer than a chunk may be is one.
  EXPECT_EQ(cut_into_chunks({700, 3, 600}, {.rows = 500}).size(), 3U);
  EXPECT_TRUE(cut_into_chunks({}, {}).empty());
  EXPECT_EQ(pieces_for(Device::kCuda, 1), pieces_for(Device::kCuda, 4));
}

TEST(WorkSharing, GathersTheNumbersOfEverySentenceInSlices) {
  std::vector<std::vector<double>> mine(2500);
  for (size_t i = 0; i < mine.size(); ++i) {
    mine[i].assign(i % 4, 0.25 * static_cast<double>(i));
  }
  EXPECT_EQ(gather_numbers(*make_self_communicator(), mine), mine);
  EXPECT_TRUE(gather_numbers(*make_self_communicator(), {}).empty());
}

}  // namespace
}  // namespace ventris
