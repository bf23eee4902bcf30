#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <vector>

#include "data/files/file_io.h"

// Private to data/.

namespace ventris::data {

/// The bytes of a plain or gzipped file, or of the standard input ("-"), as they come: a pipe or a terminal
/// is not waited for longer than until it gives something.
class ByteSource {
 public:
  /// Throws DataError kMissingInput where there is no such file, or a folder.
  explicit ByteSource(const std::string& path);
  ~ByteSource();
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  /// Overwrites the buffer; returns how many bytes it got, 0 at the end. `lines`, read before, are told where
  /// the source fails: DataError kIo, or kBadData for gzip data that is truncated or corrupt.
  size_t read(std::vector<char>& buffer, int64_t lines);
  const std::string& path() const { return path_; }  // "standard input" for "-"

 private:
  enum class Form { kUnknown, kPlain, kGzip };

  /// Adds what one call of the system gives; false at the end of the file.
  bool fill(int64_t lines);
  void find_form(int64_t lines);
  size_t take_plain(std::vector<char>& buffer, int64_t lines);
  size_t inflate_some(std::vector<char>& buffer, int64_t lines);
  /// Goes to the gzip member that follows the one that has ended; false where there is none. Other bytes
  /// there are passed over, as gzip does.
  bool begin_next_member(int64_t lines);
  [[noreturn]] void refuse(const char* what, const char* reason, int64_t lines) const;

  std::string path_;
  FileHandle file_;
  Form form_ = Form::kUnknown;
  std::vector<unsigned char> input_;  // read, and not yet taken from `begin_` on
  size_t begin_ = 0;
  size_t end_ = 0;
  bool at_end_ = false;  // of the file: a terminal would give more if it were asked again
  z_stream stream_{};
  bool member_ended_ = false;  // of gzip data
};

}  // namespace ventris::data
