// SPDX-License-Identifier: Apache-2.0
#include "trainer/observers/start_report.h"

#include <gtest/gtest.h>

#include "trainer/text.h"

namespace ventris {
namespace {

TEST(StartReport, NamesOptionsThatChanged) {
  TrainOptions before;
  EXPECT_EQ(changed_options(before, before), std::vector<std::string>());
  TrainOptions now = before;
  now.max_steps = 7;
  now.model.dropout = 0.25F;
  now.device = "cpu";
  now.profile = true;
  now.reduction = Reduction::kReproducible;
  now.model_dir = "elsewhere";
  now.resume = "never";
  before.model.marian_positions = true;
  now.model.learned_positions = true;
  before.freeze = {"encoder/*"};
  now.freeze = {"encoder/*", "embedding"};
  const std::vector<std::string> expected = {"--device from auto to cpu",
                                             "--dropout from 0.1 to 0.25",
                                             "--freeze from encoder/* to encoder/* embedding",
                                             "--max-steps from 100000 to 7",
                                             "--positions from marian to learned",
                                             "--profile from no to yes",
                                             "--reduction from fast to reproducible"};
  EXPECT_EQ(changed_options(before, now), expected);
}

TEST(Text, SetsThousandsApart) {
  EXPECT_EQ(thousands(0), "0");
  EXPECT_EQ(thousands(999), "999");
  EXPECT_EQ(thousands(1000), "1,000");
  EXPECT_EQ(thousands(1234567), "1,234,567");
  EXPECT_EQ(thousands(-123456), "-123,456");
}

}  // namespace
}  // namespace ventris
