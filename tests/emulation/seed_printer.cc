// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/emulation/race_detector.h"
#include "tests/emulation/random.h"

namespace ventris::emulation {
namespace {

/// Fails tests in which threads raced, and says after a failed test with which seed it fails again.
class SeedPrinter : public ::testing::EmptyTestEventListener {
  void OnTestEnd(const ::testing::TestInfo& test) override {
    EXPECT_EQ(races_found(), 0U) << "the reports of ThreadSanitizer stand above";
    forget_races();
    if (test.result()->Failed()) std::printf("the emulated device ran with %s\n", seed_text().c_str());
  }
};

const bool installed = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new SeedPrinter);
  return true;
}();

}  // namespace
}  // namespace ventris::emulation
