// SPDX-License-Identifier: Apache-2.0
#include "data/pair_block.h"

#include <gtest/gtest.h>

#include <string>

namespace ventris::data {
namespace {

TEST(PairKeysTest, LettersAreWhatIsLeftWithoutCaseMarksDigitsAndSpaces) {
  EXPECT_EQ(letters_of("The  Café, 24 (new)!"), "thecafénew");
  EXPECT_EQ(letters_of("ÄÖ\u3000\u3002\u0663"), "äö");  // an ideographic space and stop, an Arabic digit
  EXPECT_EQ(letters_of("24 - 25."), "24 - 25.") << "nothing would be left";
  EXPECT_EQ(letters_of(""), "");
}

TEST(PairKeysTest, KeysTellSidesApartAndNearOnesFindLikePairs) {
  for (const Likeness likeness : {Likeness::kExact, Likeness::kNear}) {
    KeySet keys;
    const auto is_new = [&](const char* source, const char* target) {
      return keys.insert(key_of_pair(source, target, likeness)).second;
    };
    EXPECT_TRUE(is_new("ab", "c") && is_new("a", "bc") && is_new("c", "ab"));
    EXPECT_FALSE(is_new("ab", "c"));
    EXPECT_TRUE(is_new("A dog.", "Ein Hund."));
    EXPECT_EQ(is_new("a  dog", "ein hund 2"), likeness == Likeness::kExact);
    EXPECT_TRUE(is_new("A cat.", "Ein Hund."));
  }
}

}  // namespace
}  // namespace ventris::data
