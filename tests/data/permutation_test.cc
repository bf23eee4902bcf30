// SPDX-License-Identifier: Apache-2.0
#include "data/permutation.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "data/error.h"

namespace ventris::data {
namespace {

void expect_bijection(int64_t size, uint64_t seed, uint64_t epoch) {
  const Permutation order(size, seed, epoch);
  std::vector<bool> seen(static_cast<size_t>(size), false);
  for (int64_t i = 0; i < size; ++i) {
    const int64_t value = order(i);
    ASSERT_GE(value, 0);
    ASSERT_LT(value, size);
    ASSERT_FALSE(seen[static_cast<size_t>(value)]) << "size " << size << ": " << value << " twice";
    seen[static_cast<size_t>(value)] = true;
  }
}

TEST(PermutationTest, IsABijectionOfSmallSizes) {
  for (int64_t size = 1; size <= 100; ++size) {
    for (uint64_t epoch = 0; epoch < 5; ++epoch) {
      expect_bijection(size, 7, epoch);
    }
  }
}

// A run that goes on with a later version of the program must see the pairs in the order in which it began.
TEST(PermutationTest, IsTheSameInEveryVersion) {
  const Permutation order(10, 7, 2);
  std::vector<int64_t> values;
  for (int64_t i = 0; i < order.size(); ++i) values.push_back(order(i));
  EXPECT_EQ(values, (std::vector<int64_t>{8, 1, 5, 4, 7, 0, 6, 2, 3, 9}));
  const Permutation large(164000, 1, 0);
  EXPECT_EQ(large(0), 45094);
  EXPECT_EQ(large(1), 56878);
  EXPECT_EQ(large(163999), 120410);
}

TEST(PermutationTest, IsABijectionOfLargeSizes) {
  for (const int64_t size : {1023, 1024, 1025, 4096, 4097, 164000, 1048577}) {
    expect_bijection(size, 3, 1);
  }
}

TEST(PermutationTest, ReachesPlacesOfHugeSizes) {
  const int64_t size = int64_t{5} << 40;
  const Permutation order(size, 1, 0);
  std::set<int64_t> seen;
  for (int64_t i = 0; i < 1000; ++i) {
    const int64_t value = order(size - 1 - i);
    EXPECT_GE(value, 0);
    EXPECT_LT(value, size);
    seen.insert(value);
  }
  EXPECT_EQ(seen.size(), 1000u);
}

TEST(PermutationTest, SeedsAndEpochsGiveUnrelatedOrders) {
  const int64_t size = 10000;
  const Permutation first(size, 1, 0);
  for (const auto& [seed, epoch] : {std::pair<uint64_t, uint64_t>{1, 1}, {2, 0}, {0, 1}, {1, 2}}) {
    const Permutation other(size, seed, epoch);
    int same = 0;
    for (int64_t i = 0; i < size; ++i) {
      same += first(i) == other(i) ? 1 : 0;
    }
    EXPECT_LT(same, 12) << "about one place in common is expected by chance";
  }
}

// Chi-squared over (eighth of the places, eighth of the values): 49 degrees of freedom, so 49 +- 10 for
// random orders.
TEST(PermutationTest, PlacesAndValuesAreUnrelated) {
  for (const int64_t size : {8000, 40000, 70000}) {
    double sum = 0.0;
    const int repeats = 10;
    for (uint64_t seed = 0; seed < repeats; ++seed) {
      const Permutation order(size, seed, 0);
      double counts[8][8] = {};
      for (int64_t i = 0; i < size; ++i) {
        counts[i * 8 / size][order(i) * 8 / size] += 1.0;
      }
      const double expected = static_cast<double>(size) / 64.0;
      for (const auto& row : counts) {
        for (const double count : row) {
          sum += (count - expected) * (count - expected) / expected;
        }
      }
    }
    EXPECT_GT(sum / repeats, 30.0) << size;
    EXPECT_LT(sum / repeats, 75.0) << size;
  }
}

TEST(PermutationTest, NoElementsIsAnError) {
  EXPECT_THROW(Permutation(0, 1, 1), DataError);
}

}  // namespace
}  // namespace ventris::data
