// SPDX-License-Identifier: Apache-2.0
#include "backend/device/philox.h"

#include <gtest/gtest.h>

namespace ventris {
namespace {

// The known answers that Salmon et al. publish with their generator: of zeros, ones and digits of pi.
TEST(Philox, GivesThePublishedNumbers) {
  using Numbers = std::array<uint32_t, 4>;
  const uint32_t ones = 0xffffffffU;
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}),
            (Numbers{0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U}));
  EXPECT_EQ(philox4x32_10({ones, ones, ones, ones}, {ones, ones}),
            (Numbers{0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU}));
  EXPECT_EQ(philox4x32_10({0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U}, {0xa4093822U, 0x299f31d0U}),
            (Numbers{0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U}));
}

}  // namespace
}  // namespace ventris
