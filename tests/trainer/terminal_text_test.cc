// SPDX-License-Identifier: Apache-2.0
#include "trainer/terminal_text.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>

namespace ventris {
namespace {

TEST(TerminalText, WideCharactersTakeTwoCells) {
  EXPECT_EQ(cells_of(""), 0U);
  EXPECT_EQ(cells_of("step 1"), 6U);
  EXPECT_EQ(cells_of("Ärger"), 5U);
  EXPECT_EQ(cells_of("日本語"), 6U);
  EXPECT_EQ(cells_of("가나"), 4U);
  EXPECT_EQ(cells_of("a\u0308"), 1U);  // with a combining diaeresis
  EXPECT_EQ(cells_of("⣿⣇⣀"), 3U);
  EXPECT_EQ(cells_of("\033[36m⣿\033[0m"), 1U);
  EXPECT_EQ(cells_of("\xff?"), 2U);  // a byte that is no UTF-8
}

TEST(TerminalText, IsCutBetweenCharacters) {
  EXPECT_EQ(cut_to_cells("step 1", 4), "step");
  EXPECT_EQ(cut_to_cells("step 1", 6), "step 1");
  EXPECT_EQ(cut_to_cells("日本語", 6), "日本語");
  EXPECT_EQ(cut_to_cells("日本語", 5), "日本");
  EXPECT_EQ(cut_to_cells("日本語", 1), "");
  EXPECT_EQ(cut_to_cells("a\u0308b", 1), "a\u0308");
  EXPECT_EQ(cut_to_cells("\033[36mab\033[0m", 1), "\033[36ma\033[0m");
}

TEST(TerminalText, TakesTheRowsOfATerminal) {
  EXPECT_EQ(rows_of("", 5), 1U);
  EXPECT_EQ(rows_of("abcde", 5), 1U);
  EXPECT_EQ(rows_of("abcdef", 5), 2U);
  EXPECT_EQ(rows_of("日本語日", 5), 2U);  // two in a row, whose last cell is blank
  EXPECT_EQ(rows_of("日本語日本", 5), 3U);
}

TEST(TerminalText, TextOfUsersHasNoControlCharacters) {
  EXPECT_EQ(in_charset("a\033[2Jb", Charset::kUtf8), "a [2Jb");
  EXPECT_EQ(in_charset("warm 日本", Charset::kUtf8), "warm 日本");
  EXPECT_EQ(in_charset("warm 日本", Charset::kAscii), "warm ??");
}

class Locale : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG", "TERM"}) ::unsetenv(name);
  }
  static void set(const char* name, const char* value) { ::setenv(name, value, 1); }
};

TEST_F(Locale, FirstVariableThatIsSetDecides) {
  EXPECT_EQ(message_charset(), Charset::kAscii);
  set("LANG", "de_DE.UTF-8");
  EXPECT_EQ(message_charset(), Charset::kUtf8);
  set("LC_CTYPE", "C");
  EXPECT_EQ(message_charset(), Charset::kAscii);
  set("LC_ALL", "C.utf8");
  EXPECT_EQ(message_charset(), Charset::kUtf8);
  set("LC_ALL", "");
  set("LC_CTYPE", "UTF-8");  // as a Mac sends it
  EXPECT_EQ(message_charset(), Charset::kUtf8);
  set("TERM", "linux");
  EXPECT_EQ(message_charset(), Charset::kAscii);
}

}  // namespace
}  // namespace ventris
