#pragma once

#include <cstddef>
#include <string>

namespace ventris {

/// A line of ASCII at the end of a terminal, which is written over again and again. The functions give the
/// bytes to write; `columns` is the width of the terminal at that moment, 0 if it does not tell.
class LiveLine {
 public:
  /// `reflows`: the terminal breaks a line anew when it becomes narrower, as most do; then what stands in the
  /// rows above is removed with it. Others cut lines off.
  explicit LiveLine(bool reflows = true) : reflows_(reflows) {}

  /// Puts the text, cut to what fits, in the place of the line that is there.
  std::string replace(const std::string& text, size_t columns);
  /// Removes the line.
  std::string remove(size_t columns);
  bool is_open() const { return length_ > 0; }

 private:
  bool reflows_;
  size_t length_ = 0;  // of the line that is there
};

}  // namespace ventris
