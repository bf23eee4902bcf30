// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/gemm_algorithms.h"

#include <gtest/gtest.h>

#include <string>

namespace ventris {
namespace {

const GemmAlgorithm kOne = {1, 2, 3, 4, 5, 6, 7, 0xFEDCBA9876543210U};
const GemmAlgorithm kOther = {9, 9, 9, 9, 9, 9, 9, 9};

TEST(GemmAlgorithms, AreFoundWhereTheyWereAdded) {
  GemmAlgorithms algorithms("device");
  EXPECT_FALSE(algorithms.find("shape"));
  algorithms.add("shape", kOne);
  EXPECT_EQ(algorithms.find("shape"), kOne);
  EXPECT_FALSE(algorithms.find("another shape"));
}

TEST(GemmAlgorithms, OfATextReplaceOthers) {
  const GemmAlgorithms first("a device, version 1");
  GemmAlgorithms second("a device, version 1");
  second.add("a", kOther);
  second.add("b", kOther);
  EXPECT_TRUE(second.take(first.text_of({{"a", kOne}, {"c", kOne}})));
  EXPECT_EQ(second.find("a"), kOne);
  EXPECT_EQ(second.find("b"), kOther);
  EXPECT_EQ(second.find("c"), kOne);
}

TEST(GemmAlgorithms, OfAnotherVersionAreNotTaken) {
  GemmAlgorithms other("device 2");
  EXPECT_FALSE(other.take(GemmAlgorithms("device 1").text_of({{"shape", kOne}})));
  EXPECT_FALSE(other.take(""));
  EXPECT_FALSE(other.find("shape"));
}

TEST(GemmAlgorithms, DamagedLinesAreSkippedAndTheOthersKept) {
  GemmAlgorithms algorithms("device");
  std::string text = algorithms.text_of({{"a", kOne}, {"b", kOther}});
  const size_t line = text.find("\na\t");
  ASSERT_NE(line, std::string::npos);
  text[line + 20] = text[line + 20] == '0' ? '1' : '0';
  EXPECT_TRUE(algorithms.take(text));
  EXPECT_FALSE(algorithms.find("a"));
  EXPECT_EQ(algorithms.find("b"), kOther);
}

}  // namespace
}  // namespace ventris
