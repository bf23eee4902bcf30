// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backend/device/error.h"

namespace ventris {

/// The reader of the standard output is gone. The program ends silently with exit code 74.
class ClosedOutput : public Error {
 public:
  ClosedOutput() : Error(ExitCode::kIo, "the standard output was closed") {}
};

/// Writes results to the standard output without buffering. Throws ClosedOutput, or Error(kIo) with the
/// system's reason.
void write_output(std::string_view text);

/// Writes a message to the standard error. Control characters, as of a path, become spaces: a terminal would
/// obey them. A message that cannot be written is dropped, without an error.
void tell(const std::string& message);
/// The same for an error: "WHERE: error: MESSAGE".
void tell_error(const std::string& where, const std::string& message);

/// The lines of a text file, plain or gzipped; "-" is the standard input. A carriage return before a line end
/// is removed and NUL bytes become spaces, as `prepare` does. Throws DataError kMissingInput or kBadData
/// (for example invalid UTF-8) with file and line.
std::vector<std::string> read_text(const std::string& path);
/// The same of a text to score: a byte order mark stays in its first line, as sacreBLEU's command keeps it.
std::vector<std::string> read_scored_text(const std::string& path);
/// Cleans one line as read_text() does, or throws, naming the place.
void check_line(std::string& line, const std::string& path, int64_t line_number);

/// Throws Error kCannotCreate unless write_file_atomically() could create the file: for a check before the
/// work.
void check_can_create(const std::string& path);

/// The lines of a text in which each line ends with LF.
std::vector<std::string> split_lines(const std::string& text);

/// "1234567" as "1,234,567".
std::string grouped(int64_t value);

}  // namespace ventris
