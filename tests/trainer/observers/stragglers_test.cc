// SPDX-License-Identifier: Apache-2.0
#include "trainer/observers/stragglers.h"

#include <gtest/gtest.h>

#include "comm/affinity.h"
#include "tests/support/thread_ranks.h"

namespace ventris {
namespace {

TEST(Stragglers, TheSlowestRankIsNamedWithItsHost) {
  EXPECT_EQ(describe_straggler({{"a", 10.0}, {"a", 10.5}, {"b", 9.5}, {"b", 14.0}}, kLeastHostMedian),
            "straggler: rank 3 on b computes 1.4 times as long as the median rank");
  EXPECT_EQ(describe_straggler({{"a", 30.0}, {"b", 10.0}}, kLeastHostMedian),
            "straggler: rank 0 on a computes 3.0 times as long as the median rank");
  EXPECT_EQ(
      describe_straggler({{"a", 10.0}, {"b", 15.0}, {"c", 20.0}, {"d", 10.0}, {"e", 10.0}}, kLeastHostMedian),
      "straggler: rank 2 on c computes 2.0 times as long as the median rank");
}

TEST(Stragglers, ARankWithinAFifthOfTheMedianIsNone) {
  EXPECT_EQ(describe_straggler({{"a", 10.0}, {"a", 11.0}, {"b", 12.0}, {"b", 10.0}}, kLeastHostMedian), "");
  EXPECT_EQ(describe_straggler({{"a", 10.0}, {"a", 10.0}, {"b", 1.0}}, kLeastHostMedian),
            "");  // fast is not slow
  EXPECT_EQ(describe_straggler({{"a", 10.0}}, kLeastHostMedian), "");
  EXPECT_EQ(describe_straggler({}, 0.0), "");
}

TEST(Stragglers, AShortIntervalSaysNothing) {
  EXPECT_EQ(describe_straggler({{"a", 1.0}, {"b", 1.0}, {"c", 4.0}}, 0.5),
            "straggler: rank 2 on c computes 4.0 times as long as the median rank");
  EXPECT_EQ(describe_straggler({{"a", 0.0}, {"b", 0.0}, {"c", 4.0}}, 0.0), "");
  EXPECT_EQ(describe_straggler({{"a", 1.0}, {"b", 1.0}, {"c", 4.0}}, kLeastHostMedian), "");
}

TEST(Stragglers, EveryRankGetsTheTimesOfAll) {
  testing::ThreadRanks job(3);
  for (const std::exception_ptr& error : job.run([](Communicator& communicator) {
         const std::vector<RankTime> times = gather_rank_times(communicator, 3.0 * communicator.rank());
         ASSERT_EQ(times.size(), 3U);
         for (size_t rank = 0; rank < times.size(); ++rank) {
           EXPECT_EQ(times[rank].seconds, 3.0 * static_cast<double>(rank));
           EXPECT_EQ(times[rank].host, host_name());
         }
       }))
    EXPECT_EQ(error, nullptr);
}

}  // namespace
}  // namespace ventris
