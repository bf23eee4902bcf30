#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backend/error.h"

namespace ventris {

/// The reader of the standard output has gone. There is nobody to tell; the program ends quietly with exit
/// code 74.
class ClosedOutput : public Error {
 public:
  ClosedOutput() : Error(ExitCode::kIo, "the standard output was closed") {}
};

/// Writes results to the standard output at once. Throws ClosedOutput, or Error(kIo) with the system's
/// reason.
void write_output(std::string_view text);

/// The lines of a text file, plain or gzipped; "-" is the standard input. A carriage return before a line end
/// is removed and NUL bytes become spaces, as `prepare` does. Throws DataError kMissingInput or kBadData
/// (invalid UTF-8 among others) with file and line.
std::vector<std::string> read_text(const std::string& path);
/// Makes one line acceptable as read_text() does, or throws, naming the place.
void check_line(std::string& line, const std::string& path, int64_t line_number);

/// Writes a text file under a temporary name, then renames it. Throws Error kCannotCreate or kIo.
void write_text_file(const std::string& path, std::string_view text);

/// "1234567" as "1,234,567".
std::string grouped(int64_t value);

}  // namespace ventris
