// SPDX-License-Identifier: Apache-2.0
#include "trainer/live_block.h"

#include <fmt/core.h>

#include <algorithm>

namespace ventris {
namespace {

size_t rows_of_lines(const std::string& lines, const TerminalSize& size) {
  size_t rows = 0;
  for (size_t begin = 0, end = 0; (end = lines.find('\n', begin)) != std::string::npos; begin = end + 1)
    rows += size.columns > 0 ? rows_of(lines.substr(begin, end - begin), size.columns) : 1;
  return rows;
}

}  // namespace

size_t LiveBlock::height_of(const std::string& row, const TerminalSize& size) const {
  return reflows_ && size.columns > 0 ? rows_of(row, size.columns) : 1;
}

/// What a terminal that became lower has pushed out at its top is out of reach.
size_t LiveBlock::reach(const TerminalSize& size) const {
  size_t height = 0;
  for (const std::string& row : rows_) height += height_of(row, size);
  return size.rows > 0 ? std::min(height, size.rows) : height;
}

std::string LiveBlock::to_begin(const TerminalSize& size) const {
  const size_t above = reach(size) - 1;
  return above > 0 ? fmt::format("\r\033[{}A", above) : "\r";
}

std::string LiveBlock::replace(const std::vector<std::string>& rows, const TerminalSize& size,
                               const std::string& above) {
  const size_t before = is_open() ? reach(size) : 0;
  const size_t needed = rows.size() + rows_of_lines(above, size);
  const size_t blank = rows.size() > 1 && before > needed ? before - needed : 0;
  // A row that is erased just before it is written was never empty for the eye. Erased before, not behind the
  // text: tmux counts cells that were erased behind a text as a part of it when it rewraps rows.
  const bool in_place = is_open() && above.empty() && before <= blank + rows.size();
  std::string bytes = in_place ? to_begin(size) : remove(size);
  bytes += above;
  rows_.assign(blank, "");
  for (const std::string& row : rows) {
    // A row that fills the last column may wrap and could not be overwritten.
    rows_.push_back(size.columns > 0 ? cut_to_cells(row, size.columns - 1) : row);
  }
  for (size_t i = 0; i < rows_.size(); ++i)
    bytes += fmt::format("{}{}{}", i > 0 ? "\n" : "", in_place ? "\033[K" : "", rows_[i]);
  return bytes;
}

std::string LiveBlock::remove(const TerminalSize& size) {
  if (!is_open()) return "";
  // Not all at once from the first row, which may be that of the screen: tmux takes this for the command to
  // clear the screen, and moves what is there to its history.
  const std::string bytes = to_begin(size) + "\033[K" + (reach(size) > 1 ? "\n\033[J\033[A" : "");
  rows_.clear();
  return bytes;
}

std::string LiveBlock::leave() {
  const std::string bytes = is_open() && !rows_.back().empty() ? "\n" : "";
  rows_.clear();
  return bytes;
}

}  // namespace ventris
