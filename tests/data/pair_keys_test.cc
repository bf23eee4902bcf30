// SPDX-License-Identifier: Apache-2.0
#include "data/pair_keys.h"

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

TEST(PairKeysTest, KeysTellSidesApart) {
  for (const Likeness likeness : {Likeness::kExact, Likeness::kNear}) {
    KeySet keys(likeness);
    EXPECT_FALSE(keys.find_or_add(key_of_pair("ab", "c", likeness)));
    EXPECT_FALSE(keys.find_or_add(key_of_pair("a", "bc", likeness)));
    EXPECT_FALSE(keys.find_or_add(key_of_pair("c", "ab", likeness)));
    EXPECT_TRUE(keys.find_or_add(key_of_pair("ab", "c", likeness)));
  }
}

TEST(PairKeysTest, NearKeysFindLikePairsAndTellEqualOnes) {
  KeySet keys(Likeness::kNear);
  const TextKey first = key_of_pair("A dog.", "Ein Hund.", Likeness::kNear);
  EXPECT_FALSE(keys.find_or_add(first));
  const auto find = [&](const char* source, const char* target) {
    const TextKey key = key_of_pair(source, target, Likeness::kNear);
    const auto found = keys.find_or_add(key);
    return !found ? "new" : found->low == key.low ? "equal" : "near";
  };
  EXPECT_STREQ(find("A dog.", "Ein Hund."), "equal");
  EXPECT_STREQ(find("a  dog", "ein hund 2"), "near");
  EXPECT_STREQ(find("A cat.", "Ein Hund."), "new");
}

TEST(PairKeysTest, ASetHoldsManyKeys) {
  for (const Likeness likeness : {Likeness::kExact, Likeness::kNear}) {
    KeySet keys(likeness);
    const auto key = [&](int i) {
      return key_of_line("line " + std::string(1, 'a') + std::to_string(i) + "x" +
                             std::string(static_cast<size_t>(i % 7), 'y') +
                             std::string(static_cast<size_t>(i / 7), 'z'),
                         likeness);
    };
    constexpr int kKeys = 2000;
    for (int i = 0; i < kKeys; ++i) {
      EXPECT_FALSE(keys.contains(key(i)));
      EXPECT_FALSE(keys.find_or_add(key(i))) << i;
    }
    for (int i = 0; i < kKeys; ++i) EXPECT_TRUE(keys.contains(key(i)));
    EXPECT_EQ(keys.size(), size_t{kKeys});
  }
}

}  // namespace
}  // namespace ventris::data
