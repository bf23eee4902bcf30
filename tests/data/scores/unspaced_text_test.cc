// SPDX-License-Identifier: Apache-2.0
#include "data/scores/unspaced_text.h"

#include <gtest/gtest.h>

#include "data/text/tokenizer.h"
#include "data/text/tokenizer_training.h"

namespace ventris::data {
namespace {

using Strings = std::vector<std::string>;

TEST(UnspacedText, IsKnownByItsScript) {
  for (const char* text :
       {"日本語です。", "カタカナ", "這是字 AB", "ภาษาไทย", "ພາສາລາວ", "မြန်မာ", "ភាសាខ្មែរ", "བོད་སྐད", "𠮟る"})
    EXPECT_TRUE(is_unspaced(text)) << text;
  for (const char* text :
       {"", "  ", "日本 language", "한국어 문장", "Größe", "हिन्दी", "123。", "Привет", "\xff\xfe"})
    EXPECT_FALSE(is_unspaced(text)) << text;
}

bool phrases(const Strings& lines, BleuTokenizer tokenizer) {
  return words_are_phrases(lines, {.tokenizer = tokenizer});
}

TEST(UnspacedText, HasPhrasesForWordsWhereTheTokenizerCutsNothing) {
  const Strings japanese = {"私は昨日、東京に行きました。", "はい。", "", "それはとても良い本です。"};
  const Strings cut = {"私 は 昨日 、 東京 に 行き まし た 。", "はい 。"};
  const Strings chinese = {"我昨天去了北京。", "这是一本很好的书。"};
  const Strings thai = {"ฉันไปตลาดเมื่อวานนี้ แล้วก็กลับบ้าน", "ใช่"};
  const Strings korean = {"나는 어제 서울에 갔습니다.", "네."};
  for (const auto tokenizer : {BleuTokenizer::k13a, BleuTokenizer::kNone, BleuTokenizer::kInternational}) {
    for (const Strings& text : {japanese, chinese, thai}) EXPECT_TRUE(phrases(text, tokenizer)) << text[0];
    for (const Strings& text : {cut, korean, Strings{"It is late.", "ja"}, Strings{}})
      EXPECT_FALSE(phrases(text, tokenizer)) << (text.empty() ? "" : text[0]);
  }
  for (const Strings& text : {japanese, chinese, thai}) EXPECT_FALSE(phrases(text, BleuTokenizer::kChar));
  EXPECT_FALSE(phrases(chinese, BleuTokenizer::kChinese));
  EXPECT_TRUE(phrases(thai, BleuTokenizer::kChinese)) << "which knows Chinese characters alone";
}

TEST(UnknownCharacters, AreCountedWithoutThoseThatHavePieces) {
  const Strings text = {"abba", "abc cab", "bac", "日本"};
  for (const auto kind : {TokenizerKind::kBpe, TokenizerKind::kUnigram}) {
    TokenizerTraining options;
    options.kind = kind;
    options.vocab_size = 12;
    const Tokenizer tokenizer(train_tokenizer(text, options), "test");
    CharacterCounts counts;
    tokenizer.count_unknown("ab日x本xy", counts);
    tokenizer.count_unknown("ｙ", counts);  // normalised
    tokenizer.count_unknown("", counts);
    EXPECT_EQ(counts, (CharacterCounts{{U'x', 2}, {U'y', 2}}));
  }
}

TEST(UnknownCharacters, AreListedTheMostFrequentFirst) {
  EXPECT_EQ(listing({{U'é', 1}}), "1 character, 1 time: é U+00E9 1");
  EXPECT_EQ(
      listing({{U'語', 3}, {U'a', 3}, {0x200B, 1}, {0x1F642, 12}, {0x301, 2}, {0x1B, 1}}),
      "6 characters, 22 times: 🙂 U+1F642 12, a U+0061 3, 語 U+8A9E 3, U+0301 2, U+001B 1, U+200B 1");
  CharacterCounts many;
  for (char32_t c = 'A'; c < 'A' + 25; ++c) many[c] = 1;
  EXPECT_TRUE(listing(many).ends_with(", T U+0054 1, ..."));
}

}  // namespace
}  // namespace ventris::data
