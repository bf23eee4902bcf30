// SPDX-License-Identifier: Apache-2.0
#include "data/mix_plan.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "data/corpus.h"
#include "data/error.h"

namespace ventris::data {
namespace {

std::string refusal_of_plan(const std::string& text) {
  try {
    parse_mix_plan(text, "plan.txt");
  } catch (const DataError& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBadConfiguration);
    return error.what();
  }
  return "accepted";
}

TEST(MixPlanTest, StagesHaveNamesSharesAndEnds) {
  const MixPlan plan = parse_mix_plan(
      "# back-translation first\n"
      "warm: bt 1 clean 0 until 500 steps   # short\n"
      "\n"
      "  clean .7 bt .3 until bt 2\r\n"
      "calm: clean 3 bt 1e-1 until stalled 4\n"
      "end: clean 1",
      "plan.txt");
  ASSERT_EQ(plan.stages.size(), 4U);
  EXPECT_EQ(plan.stages[0], (MixStage{"warm", {{"bt", 1.0}, {"clean", 0.0}}, {StageEnd::Kind::kSteps, 500}}));
  EXPECT_EQ(plan.stages[1],
            (MixStage{"2", {{"clean", 0.7}, {"bt", 0.3}}, {StageEnd::Kind::kEpochs, 2, "bt"}}));
  EXPECT_EQ(plan.stages[2], (MixStage{"calm", {{"clean", 3.0}, {"bt", 0.1}}, {StageEnd::Kind::kStalled, 4}}));
  EXPECT_EQ(plan.stages[3], (MixStage{"end", {{"clean", 1.0}}, {}}));
}

TEST(MixPlanTest, TextOfAPlanIsThePlan) {
  const MixPlan plan = parse_mix_plan(
      "a: clean 0.1 bt 0.30000000000000004 until 1 steps\nb: bt 2 until bt 1000000000\n"
      "bt 7 until stalled 1\nclean 1",
      "plan.txt");
  EXPECT_EQ(parse_mix_plan(to_text(plan), "text"), plan);
  EXPECT_EQ(to_text(plan).substr(0, 48), "a: clean 0.1 bt 0.30000000000000004 until 1 step");
}

TEST(MixPlanTest, WhatIsNoPlanIsRefusedWithItsPlace) {
  const struct {
    const char* text;
    const char* says;
  } cases[] = {
      {"", "plan.txt: has no stage"},
      {"# nothing\n", "plan.txt: has no stage"},
      {"a: clean 1 until clean 1\nb: clean\n", "plan.txt, line 2: 'clean' has no share"},
      {"a: clean x\n", "'x' is no share of clean"},
      {"a: clean -1\n", "'-1' is no share of clean"},
      {"a: clean inf\n", "'inf' is no share of clean"},
      {"a: clean nan\n", "'nan' is no share of clean"},
      {": clean 1\n", "empty name"},
      {"a: clean 1 until clean\n", "'until' is followed by 1 words, not 2"},
      {"a: clean 1 until clean 1 2\n", "'until' is followed by 3 words, not 2"},
      {"a: clean 1 until clean 0\n", "'0' is no number of epochs from 1"},
      {"a: clean 1 until clean 1.5\n", "'1.5' is no number of epochs from 1"},
      {"a: clean 1 until -3 steps\n", "'-3' is no number of steps from 1"},
      {"a: clean 1 until stalled many\n", "'many' is no number of validations"},
      {"a: clean 1 clean 2\n", "stage a: names the corpus clean twice"},
      {"a: clean 0\n", "stage a: its shares sum to 0"},
      {"a: until 5 steps\n", "stage a: its shares sum to 0"},
      {"a: clean 1 bt 0 until bt 1\n", "stage a: would end after epochs of bt, of which it draws no pairs"},
      {"a: clean 1\nb: clean 1\n", "stage a: has no end"},
      {"a: clean 1 until clean 1\na: clean 1\n", "stage a: two stages have this name"},
  };
  for (const auto& [text, says] : cases)
    EXPECT_NE(refusal_of_plan(text).find(says), std::string::npos) << text << ": " << refusal_of_plan(text);
}

TEST(MixPlanTest, CorporaMustBeInTheFile) {
  const std::vector<CorpusPart> parts = {{.name = "clean", .pairs = 5}, {.name = "none", .pairs = 0}};
  const auto check = [&](const char* text) {
    check_corpora(parse_mix_plan(text, "plan.txt"), parts, "corpus.h5");
  };
  EXPECT_NO_THROW(check("clean 1 none 0"));
  try {
    check("s: clean 1 bt 0");
    ADD_FAILURE() << "accepted";
  } catch (const DataError& error) {
    EXPECT_STREQ(error.what(),
                 "--mix: stage s draws from the corpus bt, which corpus.h5 does not have; its corpora are "
                 "clean, none");
  }
  EXPECT_THROW(check("clean 1 none 1"), DataError);
}

}  // namespace
}  // namespace ventris::data
