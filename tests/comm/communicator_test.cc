// SPDX-License-Identifier: Apache-2.0
#include "comm/communicator.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "backend/device/error.h"
#include "comm/affinity.h"
#include "tests/comm/rank_test.h"

namespace ventris {
namespace {

using testing::world;

TEST(Communicator, AllRanksOfThisTestAreOnOneHost) {
  const std::vector<int> hosts = world().hosts();
  EXPECT_EQ(hosts, std::vector<int>(static_cast<size_t>(world().size()), hosts.at(0)));
}

TEST(Communicator, RanksAreThoseOfTheEnvironment) {
  EXPECT_EQ(world().rank(), testing::environment().rank());
  EXPECT_EQ(world().size(), testing::environment().size());
  EXPECT_LT(testing::environment().local_rank(), testing::environment().local_size());
  EXPECT_LE(testing::environment().local_size(), world().size());
  EXPECT_FALSE(testing::environment().host().empty());
}

TEST(Communicator, EachRankHasAThreadAndARequestedNumberIsTaken) {
  EXPECT_GE(threads_per_rank(testing::environment(), 0), 1);
  EXPECT_EQ(threads_per_rank(testing::environment(), 3), 3);
}

TEST(Communicator, SumsF32AndF64OverTheRanks) {
  const int size = world().size();
  for (const int64_t count : {1, 7, 1000, 100003}) {
    std::vector<float> singles(static_cast<size_t>(count));
    std::vector<double> doubles(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      singles[static_cast<size_t>(i)] = static_cast<float>(i % 97 + world().rank());
      doubles[static_cast<size_t>(i)] = static_cast<double>(i) * (world().rank() + 1);
    }
    world().all_reduce_sum({singles.data(), 1, count, count, DType::kF32});
    world().all_reduce_sum({doubles.data(), 1, count, count, DType::kF64});
    for (int64_t i = 0; i < count; ++i) {
      const int64_t sum = i % 97 * size + size * (size - 1) / 2;
      ASSERT_EQ(singles[static_cast<size_t>(i)], static_cast<float>(sum)) << i;
      ASSERT_EQ(doubles[static_cast<size_t>(i)], static_cast<double>(i) * size * (size + 1) / 2) << i;
    }
  }
}

TEST(Communicator, AStopReachesRanksThatCompute) {
  const int callers = world().size() / 2;
  const auto calls = [](int rank) { return rank % 2 == 1; };
  EXPECT_FALSE(world().stop_was_passed_on());
  world().barrier();
  if (calls(world().rank())) world().pass_stop_on();
  if (callers > (calls(world().rank()) ? 1 : 0)) {
    while (!world().stop_was_passed_on()) std::this_thread::yield();
  }
  world().receive_stops(callers);
  EXPECT_FALSE(world().stop_was_passed_on());
}

TEST(Communicator, SumsOfRoundedNumbersHaveTheSameBitsOnEveryRank) {
  std::vector<float> data(70001);
  for (size_t i = 0; i < data.size(); ++i) data[i] = 1.0F / static_cast<float>(i + 3 + 7 * world().rank());
  const auto count = static_cast<int64_t>(data.size());
  world().all_reduce_sum({data.data(), 1, count, count, DType::kF32});
  const std::string bytes(reinterpret_cast<const char*>(data.data()), data.size() * sizeof(float));
  for (const std::string& other : world().all_gather(bytes)) EXPECT_TRUE(other == bytes);
}

TEST(Communicator, SumsBf16RoundingToTheNearestEven) {
  if (world().size() != 2) GTEST_SKIP() << "written for two ranks";
  // The sum of each pair and its value in bf16, of 8 significant bits: 256 + 1 and 258 + 1 lie halfway
  // between two of them.
  const std::vector<std::vector<float>> terms = {{256, 258, 256, 1, -3.5F}, {1, 1, 3, 0.25F, 3.5F}};
  const std::vector<float> sums = {256, 260, 260, 1.25F, 0};
  std::vector<BF16> data;
  for (const float term : terms[static_cast<size_t>(world().rank())]) data.emplace_back(term);
  world().all_reduce_sum({data.data(), 1, 5, 5, DType::kBF16});
  for (size_t i = 0; i < sums.size(); ++i) EXPECT_EQ(static_cast<float>(data[i]), sums[i]) << i;
}

// A sum of two NaNs takes its bits from the first; which one that is differs between ranks.
TEST(Communicator, SumsOfNaNInBf16HaveTheSameBitsOnEveryRank) {
  std::vector<BF16> data(1000);
  for (BF16& one : data) one.bits = static_cast<uint16_t>(0x7FC0 + world().rank());
  world().all_reduce_sum({data.data(), 1, 1000, 1000, DType::kBF16});
  const std::string bytes(reinterpret_cast<const char*>(data.data()), data.size() * sizeof(BF16));
  for (const std::string& other : world().all_gather(bytes)) EXPECT_TRUE(other == bytes);
}

TEST(Communicator, ALimitDoesNotEndAWaitInWhichAllRanksCome) {
  world().limit_waits(60);
  if (world().rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_NO_THROW(world().barrier());
  world().limit_waits(0);
}

TEST(Communicator, TheTimeOfWaitsIsCounted) {
  const double before = world().waited_seconds();
  world().barrier();
  if (world().size() == 1) {
    EXPECT_EQ(world().waited_seconds(), 0.0);
  } else {
    EXPECT_GT(world().waited_seconds(), before);
  }
}

TEST(Communicator, BroadcastsFromAnyRoot) {
  for (int root = 0; root < world().size(); ++root) {
    std::string bytes;
    if (world().rank() == root)
      bytes = std::string(100000, static_cast<char>('a' + root)) + std::string(1, '\0') + "end";
    const std::string got = world().broadcast(bytes, root);
    EXPECT_TRUE(got == std::string(100000, static_cast<char>('a' + root)) + std::string(1, '\0') + "end")
        << root;
    EXPECT_EQ(world().broadcast("", root), "");
  }
}

TEST(Communicator, GathersBytesOfEveryLengthInRankOrder) {
  const std::string mine(static_cast<size_t>(1000 * world().rank()), static_cast<char>('A' + world().rank()));
  const std::vector<std::string> all = world().all_gather(mine);
  ASSERT_EQ(static_cast<int>(all.size()), world().size());
  for (int rank = 0; rank < world().size(); ++rank) {
    EXPECT_TRUE(all[static_cast<size_t>(rank)] ==
                std::string(static_cast<size_t>(1000 * rank), static_cast<char>('A' + rank)))
        << rank;
  }
}

TEST(Communicator, GathersToOneRankAlone) {
  const auto of = [](int rank) {
    return std::string(static_cast<size_t>(1000 * rank), static_cast<char>('A' + rank));
  };
  for (int root = 0; root < world().size(); ++root) {
    const std::vector<std::string> all = world().gather(of(world().rank()), root);
    ASSERT_EQ(static_cast<int>(all.size()), world().rank() == root ? world().size() : 0);
    for (size_t rank = 0; rank < all.size(); ++rank) EXPECT_TRUE(all[rank] == of(static_cast<int>(rank)));
  }
}

TEST(Communicator, ReduceScatterLeavesEachRankTheSumsOfItsSegment) {
  const int64_t ranks = world().size();
  for (const int64_t of_a_rank : {1, 1001}) {
    const int64_t count = ranks * of_a_rank;
    const int64_t sum_of_ranks = ranks * (ranks - 1) / 2;
    std::vector<float> data;
    for (int64_t i = 0; i < count; ++i) data.push_back(static_cast<float>(i % 97 + world().rank()));
    world().start_reduce_scatter_sum({data.data(), 1, count, count, DType::kF32});
    world().finish_reductions();
    for (int64_t i = world().rank() * of_a_rank; i < (world().rank() + 1) * of_a_rank; ++i)
      ASSERT_EQ(data[static_cast<size_t>(i)], static_cast<float>(i % 97 * ranks + sum_of_ranks));
  }
}

TEST(Communicator, AllGatherSendsTheSegmentOfEachRankInEveryRange) {
  const int64_t ranks = world().size();
  const std::vector<int64_t> of_a_rank = {1, 3000, 17};
  std::vector<std::vector<float>> data;
  std::vector<Tensor> ranges;
  for (const int64_t n : of_a_rank) {
    data.emplace_back(static_cast<size_t>(ranks * n), -1.0F);
    for (int64_t i = 0; i < n; ++i)
      data.back()[static_cast<size_t>(world().rank() * n + i)] = static_cast<float>(world().rank() * n + i);
    ranges.push_back({data.back().data(), 1, ranks * n, ranks * n, DType::kF32});
  }
  world().start_all_gather(ranges);
  world().finish_reductions();
  for (const std::vector<float>& range : data) {
    for (size_t i = 0; i < range.size(); ++i) ASSERT_EQ(range[i], static_cast<float>(i));
  }
}

TEST(Communicator, EqualValuesPassTheCheck) {
  EXPECT_NO_THROW(check_equal_on_all_ranks(world(), "the corpus", "0123abcd"));
}

TEST(Communicator, ADisagreementNamesTheKeyTheRankAndBothValuesOnEveryRank) {
  const int last = world().size() - 1;
  if (last == 0) GTEST_SKIP() << "one rank cannot disagree";
  try {
    check_equal_on_all_ranks(world(), "the corpus", world().rank() == last ? "other" : "same");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRanksDisagree);
    const std::string message = error.what();
    for (const std::string& part : {std::string("the corpus"), "rank " + std::to_string(last),
                                    std::string("\"other\""), std::string("\"same\"")}) {
      EXPECT_NE(message.find(part), std::string::npos) << part << " is not in: " << message;
    }
  }
  world().barrier();
}

TEST(Communicator, OneRankWithoutTransportKeepsItsValues) {
  const auto self = make_self_communicator();
  std::vector<float> data = {1.0F, 2.0F};
  self->all_reduce_sum({data.data(), 1, 2, 2, DType::kF32});
  EXPECT_EQ(data, (std::vector<float>{1.0F, 2.0F}));
  EXPECT_EQ(self->broadcast("x", 0), "x");
  EXPECT_EQ(self->all_gather("y"), std::vector<std::string>{"y"});
  EXPECT_EQ(self->gather("z", 0), std::vector<std::string>{"z"});
  EXPECT_NO_THROW(check_equal_on_all_ranks(*self, "key", "value"));
}

}  // namespace
}  // namespace ventris
