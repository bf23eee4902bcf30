// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/files/element_type.h"
#include "data/files/file_io.h"
#include "data/files/hdf5_writer.h"

// Private to data/.

namespace ventris::data {

/// A list of elements that grows on the disk until its length is known. The file has no name (or one only for
/// a moment, if the file system has no unnamed files), so nothing remains of it when the process ends in any
/// way. Errors: DataError kCannotCreate, kIo, naming the output that it is for.
class SpoolFile {
 public:
  SpoolFile(const std::string& output, ElementType type);

  void append(const void* data, int64_t count);
  int64_t size() const { return written_ / width_ + static_cast<int64_t>(buffer_.size()) / width_; }
  /// Writes all elements as a new dataset, and gives their room on the disk back as they are copied: once.
  void copy_to(Hdf5Writer& writer, const std::string& name);

 private:
  void flush();

  std::string output_;
  ElementType type_;
  int64_t width_;
  FileHandle file_;
  int64_t written_ = 0;  // bytes in the file
  std::vector<char> buffer_;
};

}  // namespace ventris::data
