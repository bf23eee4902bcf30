// SPDX-License-Identifier: Apache-2.0
#include "trainer/observers/event_file.h"

#include <gtest/gtest.h>

#include <bit>
#include <string>

namespace ventris {
namespace {

uint32_t unmasked(uint32_t crc) {
  return std::rotl(crc - 0xA282EAD8U, 15);
}

TEST(EventFile, ChecksumsAreThoseOfTheStandard) {
  // RFC 3720, appendix B.4.
  EXPECT_EQ(unmasked(masked_crc32c(std::string(32, '\0'))), 0x8A9136AAU);
  EXPECT_EQ(unmasked(masked_crc32c(std::string(32, '\xFF'))), 0x62A8AB43U);
  std::string up;
  for (char i = 0; i < 32; ++i) up += i;
  EXPECT_EQ(unmasked(masked_crc32c(up)), 0x46DD794EU);
}

TEST(EventFile, TheBytesAreThoseOfTheMessages) {
  // The frame around: wall_time 1.5, step 300, and a summary of one value: tag "loss", simple_value 2.5.
  const std::string expected(
      "\x09\x00\x00\x00\x00\x00\x00\xF8\x3F\x10\xAC\x02\x2A\x0D\x0A\x0B\x0A\x04loss\x15\x00\x00\x20\x40", 27);
  const std::string frame = event_frame({.time = 1.5, .step = 300, .scalars = {{"loss", 2.5F}}});
  ASSERT_EQ(frame.size(), 12 + expected.size() + 4);
  EXPECT_EQ(frame.substr(12, expected.size()), expected);
  EXPECT_EQ(frame.substr(0, 8), std::string("\x1B\0\0\0\0\0\0\0", 8));
}

}  // namespace
}  // namespace ventris
