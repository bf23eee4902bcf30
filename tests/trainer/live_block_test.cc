// SPDX-License-Identifier: Apache-2.0
#include "trainer/live_block.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/terminal_model.h"

namespace ventris {
namespace {

using ScreenRows = std::vector<std::string>;

ScreenRows joined_rows(ScreenRows a, const ScreenRows& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

ScreenRows without_blank_rows(ScreenRows rows) {
  std::erase(rows, "");
  return rows;
}

/// Rows of these lengths, of different letters.
ScreenRows rows_of_lengths(const std::vector<size_t>& lengths) {
  ScreenRows rows;
  for (const size_t length : lengths) rows.emplace_back(length, static_cast<char>('a' + rows.size()));
  return rows;
}

/// Writes lines that fill the screen, as the report of a start does, and returns them.
ScreenRows filled(TerminalModel& terminal) {
  ScreenRows log;
  for (size_t i = 0; i < terminal.size().rows; ++i) log.push_back("line " + std::to_string(i));
  for (const std::string& line : log) terminal.write(line + "\n");
  return log;
}

/// The parameter: whether the terminal reflows.
class LiveBlockTest : public ::testing::TestWithParam<bool> {
 protected:
  TerminalModel terminal_{80, 24, GetParam()};
  LiveBlock block_{GetParam()};

  void show(const ScreenRows& rows, const std::string& above = "") {
    terminal_.write(block_.replace(rows, terminal_.size(), above));
  }
};

TEST_P(LiveBlockTest, IsRedrawnInItsPlace) {
  terminal_.write("said before\n");
  for (const size_t length : {70U, 3U, 79U, 0U, 40U}) {
    const ScreenRows rows = rows_of_lengths({length, 79 - length, 20, 0});
    show(rows);
    EXPECT_EQ(terminal_.rows(), joined_rows({"said before"}, rows)) << length;
    EXPECT_EQ(terminal_.cursor_row(), 4U);
    EXPECT_EQ(terminal_.cursor_column(), 0U);
  }
}

TEST_P(LiveBlockTest, StaysBelowWhatIsWrittenAbove) {
  ScreenRows log;
  const ScreenRows rows = rows_of_lengths({10, 79, 0});
  for (int i = 0; i < 40; ++i) {  // more than the screen has rows
    // Of one row, of exactly one, of two.
    const std::string line = std::string(i % 3 == 0   ? 12
                                         : i % 3 == 1 ? 80
                                                      : 100,
                                         static_cast<char>('A' + i % 26));
    show(rows, line + "\n");
    for (size_t at = 0; at < line.size(); at += 80) log.push_back(line.substr(at, 80));
    ASSERT_EQ(terminal_.rows(), joined_rows(log, rows)) << i;
  }
}

TEST_P(LiveBlockTest, GrowsAndShrinks) {
  const ScreenRows log = filled(terminal_);
  for (const size_t count : {3U, 9U, 2U, 12U, 1U, 4U}) {
    const ScreenRows rows = rows_of_lengths(std::vector<size_t>(count, 30));
    show(rows);
    const ScreenRows blank(count == 2 ? 7 : 0, "");  // the other rows of the nine before
    EXPECT_EQ(terminal_.rows(), joined_rows(joined_rows(log, blank), rows)) << count;
  }
  terminal_.write(block_.remove(terminal_.size()));
  EXPECT_EQ(terminal_.rows(), joined_rows(log, {""}));
  EXPECT_FALSE(block_.is_open());
}

TEST_P(LiveBlockTest, LinesAboveTakeTheBlankRowsOfALowerBlock) {
  show(rows_of_lengths({9, 9, 9, 9, 9, 0}));
  const ScreenRows rows = rows_of_lengths({9, 0});
  show(rows);
  EXPECT_EQ(terminal_.rows(), joined_rows(ScreenRows(4, ""), rows));
  show(rows, "one\n");
  EXPECT_EQ(terminal_.rows(), joined_rows({"one", "", "", ""}, rows));
  show(rows, std::string(81, 'x') + "\n");
  EXPECT_EQ(terminal_.rows(), joined_rows({"one", std::string(80, 'x'), "x", ""}, rows));
  show(rows, "two\nthree\n");
  EXPECT_EQ(terminal_.rows(), joined_rows({"one", std::string(80, 'x'), "x", "two", "three"}, rows));
  EXPECT_EQ(terminal_.cursor_row(), 6U);
}

TEST_P(LiveBlockTest, LeavesNothingBehindWhenTheTerminalIsResized) {
  const ScreenRows log = filled(terminal_);
  // The widest rows, some that take two cells a character, and blank ones.
  const ScreenRows rows = {"", std::string(79, 'a'), "日本語のステージの名前", std::string(61, 'b'), "c", ""};
  show(rows);
  for (const size_t columns : {60U, 40U, 41U, 120U, 33U, 80U, 79U, 21U, 200U}) {
    terminal_.resize(columns, 24);
    ScreenRows cut;
    for (const std::string& row : rows) cut.push_back(cut_to_cells(row, columns - 1));
    show(rows);
    EXPECT_EQ(without_blank_rows(terminal_.rows()), without_blank_rows(joined_rows(log, cut))) << columns;
    terminal_.resize(columns, 14);  // and lower, as high as what the rows take at half their width
    show(rows, "a message\n");
    const ScreenRows with_message = joined_rows(joined_rows(log, {"a message"}), cut);
    EXPECT_EQ(without_blank_rows(terminal_.rows()), without_blank_rows(with_message)) << columns;
    terminal_.write(block_.remove(terminal_.size()));
    EXPECT_EQ(terminal_.rows(), joined_rows(joined_rows(log, {"a message"}), {""})) << columns;
    terminal_ = TerminalModel(columns, 24, GetParam());
    filled(terminal_);
    show(rows);
  }
}

TEST_P(LiveBlockTest, LeavesNothingBehindWhenTheTerminalNarrowsAgainAndAgain) {
  const ScreenRows log = filled(terminal_);
  // As many rows as the picture has: between blank ones, less than half of those of the terminal.
  ScreenRows rows = rows_of_lengths(std::vector<size_t>(12, 79));
  rows.front().clear();
  rows.emplace_back();
  show(rows);
  for (const size_t columns : {60U, 40U, 39U, 25U, 80U, 41U}) {
    terminal_.resize(columns, 24);
    ScreenRows cut;
    for (const std::string& row : rows) cut.push_back(cut_to_cells(row, columns - 1));
    show(cut);
    EXPECT_EQ(without_blank_rows(terminal_.rows()), without_blank_rows(joined_rows(log, cut))) << columns;
    EXPECT_EQ(terminal_.cursor_column(), 0U);
  }
}

TEST_P(LiveBlockTest, OneRowIsALiveLine) {
  for (const size_t narrow : {99U, 60U, 50U, 41U, 33U, 10U}) {
    terminal_ = TerminalModel(120, 24, GetParam());
    LiveBlock line(GetParam());
    const ScreenRows log = filled(terminal_);
    for (const size_t length : {100U, 80U, 101U}) {
      terminal_.write(line.replace({std::string(length, 'a')}, terminal_.size()));
      ASSERT_EQ(terminal_.rows(), joined_rows(log, {std::string(length, 'a')}));
    }
    terminal_.resize(narrow, 24);
    terminal_.write(line.replace({std::string(100, 'b')}, terminal_.size()));
    EXPECT_EQ(terminal_.rows(), joined_rows(log, {std::string(narrow - 1, 'b')})) << narrow;
    EXPECT_TRUE(line.is_open());
    terminal_.write(line.remove(terminal_.size()) + "x\n");
    EXPECT_EQ(terminal_.rows(), joined_rows(log, {"x", ""})) << narrow;
    EXPECT_EQ(line.remove(terminal_.size()), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Reflowing, LiveBlockTest, ::testing::Bool());

TEST(LiveBlock, IsNotCutWhereTheWidthIsNotKnown) {
  LiveBlock line;
  EXPECT_EQ(line.replace({"abc"}, {}), "abc");
  EXPECT_EQ(line.replace({"defg"}, {}), "\r\033[Kdefg");
  EXPECT_EQ(line.replace({"h", "i"}, {}), "\r\033[Kh\n\033[Ki");
}

TEST(LiveBlock, WhatIsTypedMovesABlankRowAlone) {
  TerminalModel terminal(80, 24, true);
  LiveBlock block;
  const ScreenRows rows = {"", "first", "second", ""};
  terminal.write("said before\n" + block.replace(rows, terminal.size()));
  terminal.echo("^C");  // of Ctrl-C
  terminal.write(block.replace(rows, terminal.size(), "stopping\n"));
  EXPECT_EQ(terminal.rows(), (ScreenRows{"said before", "stopping", "", "first", "second", ""}));
  terminal.echo("\n");
  terminal.write(block.replace(rows, terminal.size()));
  EXPECT_EQ(terminal.rows(), (ScreenRows{"said before", "stopping", "", "", "first", "second", ""}));
}

TEST(LiveBlock, StaysWhereItIsLeft) {
  TerminalModel terminal(80, 24, true);
  LiveBlock block;
  terminal.write(block.replace({"first", ""}, terminal.size()));
  terminal.write(block.leave() + "an error\n");
  EXPECT_EQ(terminal.rows(), (ScreenRows{"first", "an error", ""}));
  EXPECT_FALSE(block.is_open());
  terminal.write(block.replace({"a line"}, terminal.size()));
  terminal.write(block.leave() + "an error\n");
  EXPECT_EQ(terminal.rows(), (ScreenRows{"first", "an error", "a line", "an error", ""}));
  // Others, such as the shell after Ctrl-Z, wrote rows.
  terminal.write(block.replace({"second", ""}, terminal.size()));
  terminal.echo("stopped\n$ fg\n");
  block.forget();
  terminal.write(block.replace({"third", ""}, terminal.size()));
  EXPECT_EQ(terminal.rows(), (ScreenRows{"first", "an error", "a line", "an error", "second", "stopped",
                                         "$ fg", "third", ""}));
}

TEST(LiveBlock, WhatALowTerminalPushedOutIsOutOfReach) {
  TerminalModel terminal(80, 24, true);
  LiveBlock block;
  terminal.write(block.replace(rows_of_lengths({9, 9, 9, 9, 9, 9, 0}), terminal.size()));
  terminal.resize(80, 4);  // the first three rows are gone
  terminal.write(block.replace({"row", ""}, terminal.size()));
  EXPECT_EQ(terminal.rows(), joined_rows(rows_of_lengths({9, 9, 9}), {"", "", "row", ""}));
  EXPECT_EQ(terminal.cursor_row(), 6U);
  terminal.write(block.replace({"line"}, terminal.size()));
  EXPECT_EQ(terminal.rows(), joined_rows(rows_of_lengths({9, 9, 9}), {"line"}));
}

}  // namespace
}  // namespace ventris
