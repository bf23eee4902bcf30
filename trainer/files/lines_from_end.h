// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace ventris {

/// A line of a file.
struct FileLine {
  std::string text = {};  // without its line end; "" if it is longer than kMaxJsonBytes
  bool too_long = false;  // longer than that
  bool has_end = true;    // false for a last line that does not end with '\n'
  int64_t begin = 0;      // offset in the file
  int64_t end = 0;        // that of the next line
};

/// Reads the lines of an open regular file from the last to the first, as they are at the beginning; memory
/// is a few times kMaxJsonBytes, for lines of any length. The descriptor must outlive the object. Throws
/// data::DataError kIo, naming `path`.
class LinesFromEnd {
 public:
  LinesFromEnd(int fd, std::string path);
  /// False if there is none left; then `line` is unchanged.
  bool previous(FileLine& line);

 private:
  void read_block();

  const int fd_;
  const std::string path_;
  int64_t begin_;       // of buffer_ in the file
  std::string buffer_;  // up to the end of the line that comes next, unless that was cut off
};

}  // namespace ventris
