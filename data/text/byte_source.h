// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/io/file_io.h"
#include "data/text/decompressor.h"

// Private to data/.

namespace ventris::data {

/// The bytes of a file, plain or compressed by gzip, xz or zstd, or of the standard input ("-"), as soon as
/// they are available: a read from a pipe or a terminal returns after the first data.
class ByteSource {
 public:
  /// Throws DataError kMissingInput if there is no such file, or it is a folder.
  explicit ByteSource(const std::string& path) : ByteSource(path, path == "-" ? "standard input" : path) {}
  /// `name` is that for messages.
  ByteSource(const std::string& path, const std::string& name);
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  /// Overwrites the buffer; returns the number of bytes read, 0 at the end. `lines`, read so far, are for the
  /// messages of errors: DataError kIo, or kBadData for compressed data that is truncated or corrupt.
  size_t read(std::vector<char>& buffer, int64_t lines);
  const std::string& path() const { return path_; }   // "standard input" for "-"
  int64_t bytes_read() const { return bytes_read_; }  // of the file, as it is compressed

 private:
  /// Appends the bytes of one system call; false at the end of the file.
  bool fill(int64_t lines);
  void find_form(int64_t lines);
  size_t take_plain(std::vector<char>& buffer, int64_t lines);
  size_t decompress_some(std::vector<char>& buffer, int64_t lines);
  std::string path_;
  FileHandle file_;
  bool form_is_known_ = false;
  const Compression* compression_ = nullptr;    // null: plain
  std::unique_ptr<Decompressor> decompressor_;  // null between parts
  std::string fault_;                           // of what follows the text that was returned last
  bool follows_ = false;                        // a part has ended, and what follows has given no text yet
  std::vector<unsigned char> input_;            // read, and not yet consumed from `begin_` on
  size_t begin_ = 0;
  size_t end_ = 0;
  bool at_end_ = false;  // of the file: another read of a terminal could return more
  int64_t bytes_read_ = 0;
};

}  // namespace ventris::data
