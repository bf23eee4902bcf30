#pragma once

#include <cstdint>
#include <string>

#include "data/file_io.h"

// Private to data/.

namespace ventris::data {

/// A file that is written to a temporary name (data/temporary_name.h) in the same folder; publish() fsyncs
/// it, renames it to PATH and fsyncs the folder. Without publish() it is removed. Errors: DataError
/// kCannotCreate and kIo with the path, the reason of the system, and the room there is.
class TemporaryFile {
 public:
  /// `expected_bytes`, if known, are those of the whole file, for messages.
  explicit TemporaryFile(const std::string& path, int64_t expected_bytes = 0);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }
  const std::string& temporary() const { return temporary_; }
  int fd() const { return file_.fd(); }
  /// Writes all the bytes at an offset.
  void write(const void* data, int64_t bytes, int64_t offset);
  void publish();
  /// Whether the file has its name: then it is whole, even where publish() failed after that.
  bool published() const { return published_; }
  /// Throws kIo: the path, `what`, the reason, and how many bytes are needed and free.
  [[noreturn]] void fail_writing(const std::string& what, const std::string& reason) const;

 private:
  std::string path_;
  std::string temporary_;
  int64_t expected_bytes_;
  FileHandle file_;
  bool published_ = false;
};

}  // namespace ventris::data
