// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "trainer/terminal_text.h"

namespace ventris {

/// A screen with what was scrolled out of it, for the control sequences that LiveBlock writes. A row is
/// broken where it is full; at a resize rows are broken anew (`reflows`) or cut off.
class TerminalModel {
 public:
  TerminalModel(size_t columns, size_t rows, bool reflows) : size_{columns, rows}, reflows_(reflows) {}

  void write(const std::string& bytes) {
    for (size_t i = 0; i < bytes.size();) {
      const char c = bytes[i];
      if (c == '\033') {
        const size_t end = bytes.find_first_of("AJKm", i);
        ASSERT_NE(end, std::string::npos) << "an unknown sequence in " << bytes;
        ASSERT_EQ(bytes[i + 1], '[');
        control(bytes[end], bytes.substr(i + 2, end - i - 2));
        i = end + 1;
      } else if (c == '\n' || c == '\r') {
        if (c == '\n') feed();
        column_ = 0;
        ++i;
      } else {
        size_t length = 1;
        while (i + length < bytes.size() && (bytes[i + length] & 0xC0) == 0x80) ++length;
        put(bytes.substr(i, length));
        i += length;
      }
    }
  }

  /// What the user types is shown at the cursor.
  void echo(const std::string& text) { write(text); }

  /// Blank rows at the bottom stay when rows are broken anew, as in tmux, and go first when the screen
  /// becomes lower. What was scrolled out comes back into a higher one.
  void resize(size_t columns, size_t rows) {
    size_t below = top_ + size_.rows - 1 - row_;
    if (rows < size_.rows) below -= std::min(below, size_.rows - rows);
    const size_t old_columns = size_.columns;
    size_ = {columns, rows};
    if (columns != old_columns) reflows_ ? reflow() : truncate();
    const size_t end = row_ + below + 1;
    top_ = end > rows ? end - rows : 0;
  }

  TerminalSize size() const { return size_; }
  /// All rows to the last that is not blank or has the cursor, without blanks at their ends.
  std::vector<std::string> rows() const {
    std::vector<std::string> text;
    for (const Row& row : rows_) {
      std::string line;
      for (const std::string& cell : row.cells) line += cell;
      line.erase(line.find_last_not_of(' ') + 1);
      text.push_back(line);
    }
    while (text.size() > row_ + 1 && text.back().empty()) text.pop_back();
    return text;
  }
  size_t cursor_row() const { return row_; }
  size_t cursor_column() const { return column_; }

 private:
  /// The second cell of a wide character is an empty string.
  struct Row {
    std::vector<std::string> cells = {};
    bool goes_on = false;  // in the next row, of the same line
  };

  void feed() {
    ++row_;
    if (row_ >= rows_.size()) rows_.emplace_back();
    if (row_ >= top_ + size_.rows) ++top_;
  }

  void put(const std::string& character) {
    const size_t cells = cells_of(character);
    if (column_ + cells > size_.columns) {
      rows_[row_].goes_on = true;
      feed();
      column_ = 0;
    }
    std::vector<std::string>& row = rows_[row_].cells;
    row.resize(std::max(row.size(), column_ + cells), " ");
    row[column_] = character;
    if (cells == 2) row[column_ + 1].clear();
    column_ += cells;
  }

  void control(char what, const std::string& argument) {
    if (what == 'A') row_ -= std::min(argument.empty() ? 1 : std::stoul(argument), row_ - top_);
    if (what == 'J' && row_ == top_ && column_ == 0) {  // clears the screen; tmux keeps what was there
      row_ = top_ = rows_.size();
      rows_.emplace_back();
    }
    if (what == 'J') rows_.resize(row_ + 1);
    if (what == 'J' || what == 'K') {
      // Where the next character would begin a row, the last column is the one that is erased.
      rows_[row_].cells.resize(std::min(rows_[row_].cells.size(), std::min(column_, size_.columns - 1)));
      rows_[row_].goes_on = false;
    }
  }

  void reflow() {
    std::vector<Row> broken;
    size_t row = 0;
    size_t column = 0;
    for (size_t begin = 0; begin < rows_.size();) {
      std::vector<std::string> line;
      size_t cursor = std::string::npos;  // in the line
      size_t end = begin;
      for (bool goes_on = true; goes_on; ++end) {
        if (end == row_) cursor = line.size() + column_;
        line.insert(line.end(), rows_[end].cells.begin(), rows_[end].cells.end());
        goes_on = rows_[end].goes_on && end + 1 < rows_.size();
      }
      begin = end;
      broken.emplace_back();
      for (size_t i = 0; i < line.size(); ++i) {
        const bool is_wide = i + 1 < line.size() && line[i + 1].empty();
        if (!line[i].empty() && broken.back().cells.size() + (is_wide ? 2 : 1) > size_.columns) {
          broken.back().goes_on = true;
          broken.emplace_back();
        }
        if (i == cursor) row = broken.size() - 1, column = broken.back().cells.size();
        broken.back().cells.push_back(line[i]);
      }
      if (cursor != std::string::npos && cursor >= line.size())
        row = broken.size() - 1, column = std::min(broken.back().cells.size(), size_.columns);
    }
    rows_ = broken;
    row_ = row;
    column_ = column;
  }

  void truncate() {
    for (Row& row : rows_) row.cells.resize(std::min(row.cells.size(), size_.columns));
    column_ = std::min(column_, size_.columns);
  }

  TerminalSize size_;
  bool reflows_;
  std::vector<Row> rows_ = {Row{}};
  size_t top_ = 0;     // first row of the screen
  size_t row_ = 0;     // of the cursor
  size_t column_ = 0;  // likewise; that behind the last one until the next character
};

}  // namespace ventris
