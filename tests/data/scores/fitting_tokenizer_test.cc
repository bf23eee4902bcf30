// SPDX-License-Identifier: Apache-2.0
#include "data/scores/fitting_tokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ventris::data {
namespace {

using Strings = std::vector<std::string>;

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
