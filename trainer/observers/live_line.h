// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace ventris {

/// One line at the end of the terminal that is the standard error, overwritten repeatedly.
class LiveLine {
 public:
  /// True if there is a terminal whose cursor moves (TERM is set, and not "dumb") and no other job of the
  /// shell has it: this one is not in the background.
  bool is_possible() const;
  /// Columns of the terminal; 0: not known.
  size_t columns() const;
  /// Overwrites the line with ASCII text, cut to the columns.
  void show(const std::string& text);
  /// Erases the line, before other text is written.
  void clear();
  /// The line stays, and text follows below.
  void leave();

 private:
  bool is_shown_ = false;
};

}  // namespace ventris
