#include "trainer/live_line.h"

#include <fmt/core.h>

namespace ventris {

std::string LiveLine::replace(const std::string& text, size_t columns) {
  const std::string before = remove(columns);
  // A line that fills the last column may wrap and could not be overwritten.
  const std::string line = columns > 0 ? text.substr(0, columns - 1) : text;
  length_ = line.size();
  return before + line;
}

std::string LiveLine::remove(size_t columns) {
  if (!is_open()) return "";
  const size_t rows_above = reflows_ && columns > 0 ? (length_ - 1) / columns : 0;
  length_ = 0;
  return rows_above > 0 ? fmt::format("\r\033[{}A\033[J", rows_above) : "\r\033[K";
}

}  // namespace ventris
