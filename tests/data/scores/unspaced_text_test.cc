// SPDX-License-Identifier: Apache-2.0
#include "data/scores/unspaced_text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

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

BleuTokenizer fitting(const Strings& references) {
  const FittingTokenizer found = fitting_tokenizer(references);
  EXPECT_EQ(found.reason.empty(), found.tokenizer == BleuTokenizer::k13a);
  return found.tokenizer;
}

TEST(FittingTokenizer, FollowsTheScript) {
  const Strings japanese = {"私は昨日、東京に行きました。", "はい。", "", "それはとても良い本です。"};
  EXPECT_EQ(fitting(japanese), BleuTokenizer::kChar);
  EXPECT_EQ(fitting({"我昨天去了北京。", "这是一本很好的书。"}), BleuTokenizer::kChinese);
  EXPECT_EQ(fitting({"ฉันไปตลาดเมื่อวานนี้ แล้วก็กลับบ้าน", "ใช่"}), BleuTokenizer::kChar);
}

TEST(FittingTokenizer, IsTheUsualOneForTextWithWords) {
  for (const Strings& references :
       {Strings{"It is late.", "Größe"}, Strings{"나는 어제 서울에 갔습니다."},
        Strings{"私 は 昨日 、 東京 に 行き まし た 。"}, Strings{"It is 東京 again today"}, Strings{}})
    EXPECT_EQ(fitting(references), BleuTokenizer::k13a);
}

}  // namespace
}  // namespace ventris::data
