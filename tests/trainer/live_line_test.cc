#include "trainer/live_line.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace ventris {
namespace {

/// A terminal that knows the control sequences of LiveLine, with the cursor at the end of what it holds.
/// Paragraphs are broken into rows of its width, or cut off where it does not reflow.
class Terminal {
 public:
  Terminal(size_t columns, bool reflows) : columns_(columns), reflows_(reflows) {}

  void write(const std::string& bytes) {
    for (size_t i = 0; i < bytes.size(); ++i) {
      if (bytes[i] == '\n') {
        rows_.emplace_back();
        column_ = 0;
      } else if (bytes[i] == '\r') {
        column_ = 0;
      } else if (bytes[i] == '\033') {
        const size_t end = bytes.find_first_of("AJK", i);
        ASSERT_NE(end, std::string::npos);
        if (bytes[end] == 'A') {
          const size_t up = std::stoul(bytes.substr(i + 2, end - i - 2));
          ASSERT_LT(up, rows_.size());
          // What is above is removed next: nothing is written behind it before.
          ASSERT_EQ(bytes.substr(end + 1, 3), "\033[J");
          rows_.resize(rows_.size() - up);
        }
        if (bytes[end] != 'A') rows_.back().resize(column_);
        i = end;
      } else {
        if (column_ == columns_) {
          rows_.emplace_back();
          column_ = 0;
        }
        rows_.back().resize(std::max(rows_.back().size(), column_ + 1), ' ');
        rows_.back()[column_++] = bytes[i];
      }
    }
  }

  /// The last row, which the cursor is in, is broken anew or cut off.
  void narrow(size_t columns) {
    columns_ = columns;
    std::string rest = rows_.back();
    rows_.pop_back();
    for (; reflows_ && rest.size() > columns; rest = rest.substr(columns))
      rows_.push_back(rest.substr(0, columns));
    rows_.push_back(rest.substr(0, columns));
    column_ = rows_.back().size();
  }

  size_t columns() const { return columns_; }
  const std::vector<std::string>& rows() const { return rows_; }

 private:
  size_t columns_;
  bool reflows_;
  size_t column_ = 0;
  std::vector<std::string> rows_ = {""};
};

class LiveLineTest : public ::testing::TestWithParam<bool> {};

TEST_P(LiveLineTest, LeavesNoFragmentsWhenTheTerminalNarrows) {
  for (const size_t narrow : {99U, 60U, 50U, 41U, 33U, 10U, 2U}) {
    Terminal terminal(120, GetParam());
    LiveLine line(GetParam());
    terminal.write("what was said before\n");
    for (size_t length : {100U, 80U, 101U}) {
      terminal.write(line.replace(std::string(length, 'a'), terminal.columns()));
      ASSERT_EQ(terminal.rows(),
                (std::vector<std::string>{"what was said before", std::string(length, 'a')}));
    }
    terminal.narrow(narrow);
    terminal.write(line.replace(std::string(100, 'b'), terminal.columns()));
    EXPECT_EQ(terminal.rows(),
              (std::vector<std::string>{"what was said before", std::string(narrow - 1, 'b')}));
    EXPECT_TRUE(line.is_open());
    terminal.write(line.remove(terminal.columns()));
    EXPECT_EQ(terminal.rows(), (std::vector<std::string>{"what was said before", ""}));
    EXPECT_FALSE(line.is_open());
  }
}

TEST_P(LiveLineTest, IsRemovedWhereTheTerminalNarrowedSince) {
  Terminal terminal(120, GetParam());
  LiveLine line(GetParam());
  terminal.write("what was said before\n" + line.replace(std::string(119, 'a'), terminal.columns()));
  terminal.narrow(25);
  terminal.write(line.remove(terminal.columns()) + "a message\n");
  EXPECT_EQ(terminal.rows(), (std::vector<std::string>{"what was said before", "a message", ""}));
  EXPECT_EQ(line.remove(terminal.columns()), "");
}

INSTANTIATE_TEST_SUITE_P(Reflowing, LiveLineTest, ::testing::Bool());

TEST(LiveLine, IsNotCutWhereTheWidthIsNotKnown) {
  LiveLine line;
  EXPECT_EQ(line.replace("abc", 0), "abc");
  EXPECT_EQ(line.replace("defg", 0), "\r\033[Kdefg");
}

}  // namespace
}  // namespace ventris
