#pragma once

#include <cstddef>
#include <string>

namespace ventris {

/// A line of ASCII at the end of a terminal, which is overwritten repeatedly. The functions return the bytes
/// to write; `columns` is the current width of the terminal, 0 if unknown.
class LiveLine {
 public:
  /// `reflows`: the terminal rewraps a line when it becomes narrower, as most do; then the rows above are
  /// removed with it. Others truncate lines.
  explicit LiveLine(bool reflows = true) : reflows_(reflows) {}

  /// Replaces the current line by the text, truncated to fit.
  std::string replace(const std::string& text, size_t columns);
  /// Removes the line.
  std::string remove(size_t columns);
  bool is_open() const { return length_ > 0; }

 private:
  bool reflows_;
  size_t length_ = 0;  // of the current line
};

}  // namespace ventris
