// SPDX-License-Identifier: Apache-2.0
#include "comm/affinity.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace ventris {
namespace {

using Masks = std::vector<std::vector<uint8_t>>;

TEST(Affinity, RanksShareTheCoresOnWhichTheyMayRun) {
  struct Case {
    const char* what;
    Masks masks;
    int share;
  };
  for (const Case& of : {Case{"cores of their own", {{1, 1, 0, 0}, {0, 0, 1, 1}}, 2},
                         Case{"not bound", Masks(3, {1, 1, 1, 1, 1, 1}), 2},
                         Case{"a part in common", {{1, 1, 1, 0}, {0, 1, 1, 1}}, 2},
                         Case{"more ranks than cores", Masks(5, {1, 1, 0}), 1}}) {
    for (size_t which = 0; which < of.masks.size(); ++which)
      EXPECT_EQ(core_share(of.masks, which), of.share) << of.what;
  }
}

TEST(Affinity, ThisProcessMayRunSomewhere) {
  EXPECT_GE(core_share({affinity_mask()}, 0), 1);
  EXPECT_FALSE(host_name().empty());
}

}  // namespace
}  // namespace ventris
