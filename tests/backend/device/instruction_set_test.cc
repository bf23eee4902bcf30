// SPDX-License-Identifier: Apache-2.0
#include "backend/device/instruction_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "backend/device/error.h"

namespace ventris {
namespace {

TEST(InstructionSet, TheOneInUseIsBuiltAndRunsHere) {
  const std::vector<std::string> built = built_instruction_sets();
  const std::vector<std::string> usable = usable_instruction_sets();
  ASSERT_FALSE(usable.empty());
  // From the least on: who has one has those before it.
  ASSERT_LE(usable.size(), built.size());
  EXPECT_TRUE(std::equal(usable.begin(), usable.end(), built.begin()));
  EXPECT_NE(std::find(usable.begin(), usable.end(), instruction_set()), usable.end());
  EXPECT_EQ(instruction_set(), automatic_instruction_set());
}

TEST(InstructionSet, TheLeastOfSome) {
  const std::vector<std::string> built = built_instruction_sets();
  EXPECT_EQ(min_instruction_set({built.back(), built.front(), built.back()}), built.front());
  EXPECT_EQ(min_instruction_set({built.back(), built.back()}), built.back());
  EXPECT_THROW(min_instruction_set({"sse9"}), Error);
}

TEST(InstructionSet, CannotBeChangedWhenInUse) {
  choose_instruction_set(instruction_set());
  EXPECT_THROW(choose_instruction_set("sse9"), Error);
  for (const std::string& other : usable_instruction_sets()) {
    if (other == instruction_set()) continue;
    EXPECT_THROW(choose_instruction_set(other), Error) << other;
  }
}

TEST(InstructionSetDeathTest, AWrongVariableIsRefusedByName) {
  // In a process of its own, since one has decided already.
  const auto refused = [] {
    setenv("VENTRIS_ISA", "sse9", 1);
    try {
      automatic_instruction_set();
    } catch (const Error& error) {
      std::fputs(error.what(), stderr);
      std::exit(static_cast<int>(error.code()));
    }
    std::exit(0);
  };
  EXPECT_EXIT(refused(), ::testing::ExitedWithCode(static_cast<int>(ExitCode::kUsage)),
              "VENTRIS_ISA=sse9: there is no such instruction set; this program has kernels for ");
}

}  // namespace
}  // namespace ventris
