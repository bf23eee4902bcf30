#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <vector>

#include "data/files/file_io.h"

// Private to data/.

namespace ventris::data {

/// The bytes of a plain or gzipped file, or of the standard input ("-"), as soon as they are available: a
/// read from a pipe or a terminal returns after the first data.
class ByteSource {
 public:
  /// Throws DataError kMissingInput if there is no such file, or it is a folder.
  explicit ByteSource(const std::string& path);
  ~ByteSource();
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  /// Overwrites the buffer; returns the number of bytes read, 0 at the end. `lines`, read so far, are for the
  /// messages of errors: DataError kIo, or kBadData for gzip data that is truncated or corrupt.
  size_t read(std::vector<char>& buffer, int64_t lines);
  const std::string& path() const { return path_; }  // "standard input" for "-"

 private:
  enum class Form { kUnknown, kPlain, kGzip };

  /// Appends the bytes of one system call; false at the end of the file.
  bool fill(int64_t lines);
  void find_form(int64_t lines);
  size_t take_plain(std::vector<char>& buffer, int64_t lines);
  size_t inflate_some(std::vector<char>& buffer, int64_t lines);
  /// Advances to the gzip member after the one that has ended; false if there is none. Zeros there are
  /// skipped; other bytes are an error.
  bool begin_next_member(int64_t lines);
  [[noreturn]] void refuse(const char* what, const char* reason, int64_t lines) const;

  std::string path_;
  FileHandle file_;
  Form form_ = Form::kUnknown;
  std::vector<unsigned char> input_;  // read, and not yet consumed from `begin_` on
  size_t begin_ = 0;
  size_t end_ = 0;
  bool at_end_ = false;  // of the file: another read of a terminal could return more
  z_stream stream_{};
  bool member_ended_ = false;  // of gzip data
};

}  // namespace ventris::data
