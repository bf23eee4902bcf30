// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace ventris::data {

/// Maximum bytes of a line, for all commands.
inline constexpr size_t kMaxLineBytes = size_t{1} << 20;

/// U+FEFF, which some programs write at the beginning of a text to mark it as UTF-8. It is no part of it.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// The text without a byte order mark at its beginning.
inline std::string_view without_byte_order_mark(std::string_view text) {
  return text.substr(text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0);
}

/// Reads lines of a file, plain or compressed by gzip, xz or zstd ("-" is the standard input), each as soon
/// as it is available. A last line without LF counts as a line. A byte order mark at the beginning is
/// removed. Memory: one line and a buffer. Errors: DataError kMissingInput, kIo, kBadData (truncated or
/// corrupt compressed data, a line over kMaxLineBytes) with file and line.
class TextReader {
 public:
  explicit TextReader(const std::string& path);
  ~TextReader();
  TextReader(const TextReader&) = delete;
  TextReader& operator=(const TextReader&) = delete;

  /// False at the end. The LF is removed; a CR before it is kept.
  bool next(std::string& line);
  int64_t line_number() const;      // of the last line read, from 1
  bool had_mark() const;            // a byte order mark, known after the first line
  const std::string& path() const;  // "standard input" for "-"
  int64_t bytes_read() const;       // of the file, as it is compressed

 private:
  bool next_with_mark(std::string& line);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Byte position of the first invalid UTF-8 sequence (RFC 3629), or -1.
int64_t find_invalid_utf8(std::string_view text);

}  // namespace ventris::data
