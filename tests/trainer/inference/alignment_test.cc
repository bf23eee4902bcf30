// SPDX-License-Identifier: Apache-2.0
#include "trainer/inference/alignment.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/trainer/small_model.h"

namespace ventris {
namespace {

using testing::small_tokenizer_model;

class WordNumbers : public ::testing::Test {
 protected:
  /// The piece with this text.
  int32_t id(const std::string& piece) const {
    for (int32_t i = 0; i < tokenizer_.vocab_size(); ++i) {
      if (tokenizer_.piece(i) == piece) return i;
    }
    throw std::runtime_error("no piece " + piece);
  }
  /// A piece that begins a word and has more than the mark; one that goes on.
  int32_t start() const { return find(true); }
  int32_t inside() const { return find(false); }
  std::vector<int> numbers(const std::vector<int32_t>& pieces) const {
    return word_numbers(tokenizer_, pieces);
  }

  const data::Tokenizer tokenizer_{small_tokenizer_model(), "test"};

 private:
  int32_t find(bool starts) const {
    for (int32_t i = 3; i < tokenizer_.vocab_size(); ++i) {
      const std::string piece = tokenizer_.piece(i);
      if (piece.starts_with("\u2581") == starts && piece != "\u2581") return i;
    }
    throw std::runtime_error("no such piece");
  }
};

TEST_F(WordNumbers, AreThoseOfWordsBetweenBlanks) {
  const std::string text = "two  hundred   one";
  const std::vector<int> got = numbers(tokenizer_.encode(text));
  EXPECT_EQ(got.front(), 0);
  EXPECT_EQ(got.back(), 2);
  EXPECT_TRUE(std::is_sorted(got.begin(), got.end()));
  EXPECT_EQ(numbers({}), std::vector<int>());
}

TEST_F(WordNumbers, CountAMarkAloneWithTheWordThatFollows) {
  const int32_t mark = id("\u2581");
  EXPECT_EQ(numbers({start(), inside(), start()}), (std::vector<int>{0, 0, 1}));
  EXPECT_EQ(numbers({inside(), start()}), (std::vector<int>{0, 1})) << "the first piece begins a word";
  EXPECT_EQ(numbers({mark, inside(), mark, start(), inside()}), (std::vector<int>{0, 0, 1, 1, 1}));
  EXPECT_EQ(numbers({start(), mark}), (std::vector<int>{0, 0})) << "no word follows the mark";
  EXPECT_EQ(numbers({mark}), (std::vector<int>{0}));
}

}  // namespace
}  // namespace ventris
