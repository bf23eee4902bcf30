// SPDX-License-Identifier: Apache-2.0
#include "data/mix_file.h"

#include <gtest/gtest.h>

#include <string>

#include "data/error.h"

namespace ventris::data {
namespace {

constexpr const char* kConfiguration = R"(
datasets:
  clean: corpora/clean.tsv.gz
  dirty: [corpora/dirty.1.tsv, corpora/dirty.2.tsv]

stages:
  - start
  - end

start:
  - clean 0.8
  - dirty 0
  - until clean 2 # two epochs

end:
  mix:
    - clean 0.4
    - dirty 0.3
    - until dirty inf
  modifiers: []

seed: 1111
num_fields: 2
trainer: /path/to/marian
)";

std::string replaced(const std::string& from, const std::string& to) {
  std::string text = kConfiguration;
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string refusal_of(const std::string& text) {
  try {
    read_mix(text, "mix.yml");
  } catch (const DataError& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBadConfiguration);
    return error.what();
  }
  return "accepted";
}

TEST(MixFileTest, AConfigurationOfOpusTrainerIsThePlanThatItSays) {
  const ReadMix read = read_mix(kConfiguration, "mix.yml");
  EXPECT_EQ(read.plan,
            parse_mix_plan("start: clean .8 dirty 0 until clean 2\nend: clean .4 dirty .3", "plan"));
  ASSERT_EQ(read.remarks.size(), 2U);
  EXPECT_NE(read.remarks[0].find("the paths of datasets are not used"), std::string::npos);
  EXPECT_EQ(read.remarks[1], "mix.yml: not used: seed, num_fields, trainer (--seed is that of the run)");
}

TEST(MixFileTest, APlanHasNoRemarks) {
  const ReadMix read = read_mix("stages: clean 1 until clean 1\nclean 1", "plan.txt");
  EXPECT_EQ(read.plan.stages.front().name, "stages");
  EXPECT_TRUE(read.remarks.empty());
}

TEST(MixFileTest, WhatCannotBeSaidIsRefusedByName) {
  const struct {
    std::string text;
    const char* says;
  } cases[] = {
      {replaced("modifiers: []", "modifiers:\n    - UpperCase: 0.05"),
       "stage end has the modifier UpperCase"},
      {replaced("seed: 1111", "modifiers:\n- Typos: 0.1\n  char_swap: 0.1"),
       "the file has the modifier Typos"},
      {replaced("dirty 0\n", "medium 0.1\n"), "stage start draws from medium, which is not among 'datasets'"},
      {replaced("  - until clean 2", "  - clean 2"), "stage start must have its 'until DATASET EPOCHS'"},
      {replaced("- clean 0.8", "- until clean 1"), "stage start must have its 'until DATASET EPOCHS'"},
      {replaced("until clean 2", "until stalled 2"), "OpusTrainer ends stages after epochs only"},
      {replaced("until clean 2", "until dirty 2"), "would end after epochs of dirty"},
      {replaced("until clean 2", "until clean x"), "'x' is no number of epochs"},
      {replaced("until clean 2", "until clean inf"), "has no end, so the stages after it"},
      {replaced("  - end\n", "  - finish\n"), "'stages' names finish, which has no key"},
      {replaced("  - end\n", "  - start\n"), "two stages have this name"},
      {replaced("seed: 1111", "version: 2"), "its version is 2"},
      {replaced("seed: 1111", "seed: ["), "it is not YAML of the expected form, at line "},
      {replaced("  clean: corpora/clean.tsv.gz", "  - clean"), "it is not YAML"},
      {"stages:\n  - a\na: []\n", "'datasets' is no list of names"},
      {"datasets: {a: b}\nstages:\n", "'stages' is no list of names"},
  };
  for (const auto& [text, says] : cases)
    EXPECT_NE(refusal_of(text).find(says), std::string::npos) << text << ": " << refusal_of(text);
}

}  // namespace
}  // namespace ventris::data
