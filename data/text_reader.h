#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace ventris::data {

/// Reads lines of a plain or gzipped file ("-" is the standard input). A last line without LF counts as a
/// line. Errors: DataError kMissingInput, kBadData (truncated or corrupt gzip, a line over max_line_bytes)
/// with file and line.
class TextReader {
 public:
  explicit TextReader(std::string path, int64_t max_line_bytes = int64_t{1} << 20);
  ~TextReader();
  TextReader(const TextReader&) = delete;
  TextReader& operator=(const TextReader&) = delete;

  /// False at the end. The LF is removed; a CR before it stays.
  bool next(std::string& line);
  int64_t line_number() const;  // of the last line read, from 1
  const std::string& path() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Byte position of the first invalid UTF-8 sequence (RFC 3629), or -1.
int64_t find_invalid_utf8(std::string_view text);

}  // namespace ventris::data
