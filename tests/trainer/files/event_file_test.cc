// SPDX-License-Identifier: Apache-2.0
#include "trainer/files/event_file.h"

#include <gtest/gtest.h>

#include <bit>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "data/error.h"
#include "tests/support/tiny_run.h"
#include "trainer/files/png.h"

namespace ventris {
namespace {

using testing::TemporaryFolder;

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

std::string frame_at(int64_t step) {
  return event_frame({.time = 1.5, .step = step, .scalars = {{"loss", 2.5F}}});
}

EventFilePart part_of(const std::string& bytes, int64_t last_step) {
  const TemporaryFolder folder;
  std::ofstream(folder / "events", std::ios::binary) << bytes;
  return find_events_up_to(folder / "events", last_step);
}

TEST(EventFile, TheBytesAreThoseOfTheMessages) {
  // The frame around: wall_time 1.5, step 300, and a summary of one value: tag "loss", simple_value 2.5.
  const std::string expected(
      "\x09\x00\x00\x00\x00\x00\x00\xF8\x3F\x10\xAC\x02\x2A\x0D\x0A\x0B\x0A\x04loss\x15\x00\x00\x20\x40", 27);
  const std::string frame = frame_at(300);
  ASSERT_EQ(frame.size(), 12 + expected.size() + 4);
  EXPECT_EQ(frame.substr(12, expected.size()), expected);
  EXPECT_EQ(frame.substr(0, 8), std::string("\x1B\0\0\0\0\0\0\0", 8));
}

TEST(EventFile, IsCutBeforeTheFirstValuesOfALaterStep) {
  const std::string begin = event_file_begin(1.0, 1);
  const std::string whole = begin + frame_at(10) + frame_at(10) + frame_at(20) + frame_at(30);
  const auto bytes = [&](size_t frames) {
    return static_cast<int64_t>(begin.size() + frames * frame_at(10).size());
  };
  EXPECT_EQ(part_of(whole, 20).bytes, bytes(3));
  EXPECT_EQ(part_of(whole, 20).last_step, 20);
  EXPECT_EQ(part_of(whole, 19).bytes, bytes(2));
  EXPECT_EQ(part_of(whole, 19).last_step, 10);
  EXPECT_EQ(part_of(whole, 99).bytes, bytes(4));
  EXPECT_EQ(part_of(whole, 9).bytes, 0);
  EXPECT_EQ(part_of(begin, 9).bytes, 0);
  EXPECT_EQ(part_of("", 9).bytes, 0);
}

std::string late_frame_at(int64_t step) {
  return event_frame(
      {.time = 1.5, .step = step, .scalars = {{std::string(kLateTags) + "news", 2.5F}, {"loss", 1.0F}}});
}

TEST(EventFile, LateValuesStayOnlyBeforeOthers) {
  // Of 10 after the values of 20, of 20 after those of 30, and of 30 at the end.
  const std::string parts[] = {event_file_begin(1.0, 1), frame_at(10), frame_at(20),
                               late_frame_at(10),        frame_at(30), late_frame_at(20),
                               late_frame_at(30)};
  std::string whole;
  std::vector<int64_t> ends;
  for (const std::string& part : parts) ends.push_back(static_cast<int64_t>((whole += part).size()));
  EXPECT_EQ(part_of(whole, 10).bytes, ends[1]);
  EXPECT_EQ(part_of(whole, 20).bytes, ends[2]) << "the value of 10 may have come at step 21";
  EXPECT_EQ(part_of(whole, 29).bytes, ends[2]);
  EXPECT_EQ(part_of(whole, 30).bytes, ends[4]);
  EXPECT_EQ(part_of(whole, 99).bytes, ends[4]);
  EXPECT_EQ(part_of(whole, 99).last_step, 30);
  EXPECT_EQ(part_of(parts[0] + late_frame_at(10), 99).bytes, 0);
}

TEST(EventFile, IsCutBeforeDamageAtAnyByte) {
  const std::string begin = event_file_begin(1.0, 1);
  const std::string whole = begin + frame_at(10) + frame_at(20);
  const auto first = static_cast<int64_t>(begin.size() + frame_at(10).size());
  for (size_t at = static_cast<size_t>(first); at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    EXPECT_EQ(part_of(damaged, 99).bytes, first) << at;
    EXPECT_EQ(part_of(whole.substr(0, at), 99).bytes, first) << at;
  }
  // A length beyond the file takes no memory.
  EXPECT_EQ(part_of(whole + std::string(64, '\xFF'), 99).bytes, static_cast<int64_t>(whole.size()));
  EXPECT_EQ(part_of(whole + std::string(100000, '\0'), 99).bytes, static_cast<int64_t>(whole.size()));
  EXPECT_THROW(find_events_up_to("/nonexistent/events", 9), data::DataError);
}

TEST(Png, HasItsSignatureItsSizeAndItsEnd) {
  const std::string png = grey_png({0, 128, 255, 0, 128, 255}, 2, 3);
  EXPECT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1A\n");
  EXPECT_EQ(png.substr(12, 13), std::string("IHDR\0\0\0\3\0\0\0\2\x08", 13));
  EXPECT_EQ(png.substr(png.size() - 8), "IEND\xAE\x42\x60\x82");
}

}  // namespace
}  // namespace ventris
