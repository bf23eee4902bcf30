// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "trainer/terminal_text.h"

namespace ventris {

/// Rows of text at the end of a terminal that are overwritten repeatedly, with the cursor behind the last; a
/// single one is a live line. The functions return the bytes to write, at once so that nothing flickers. The
/// cursor stays visible and the modes of the terminal as they are: a process that is killed leaves nothing to
/// restore.
class LiveBlock {
 public:
  /// `reflows`: the terminal rewraps rows when it becomes narrower, as most do; then what they take more is
  /// removed with them. Others truncate rows.
  explicit LiveBlock(bool reflows = true) : reflows_(reflows) {}

  /// Replaces the rows; each is cut to the width. Whole lines `above`, with their ends, are written in front
  /// of them, and stay. Several rows end where those before ended: when there are fewer, blank rows come
  /// first, which the next lines above take. Were they below, a terminal that narrows would push out as many
  /// at its top.
  std::string replace(const std::vector<std::string>& rows, const TerminalSize& size,
                      const std::string& above = "");
  /// Removes the rows.
  std::string remove(const TerminalSize& size);
  /// The rows become text as any other, with the cursor below; the next ones come after it.
  std::string leave();
  /// The same where others moved the cursor.
  void forget() { rows_.clear(); }
  bool is_open() const { return !rows_.empty(); }

 private:
  size_t height_of(const std::string& row, const TerminalSize& size) const;
  /// The rows of the screen that they take.
  size_t reach(const TerminalSize& size) const;
  std::string to_begin(const TerminalSize& size) const;

  bool reflows_;
  std::vector<std::string> rows_ = {};
};

}  // namespace ventris
