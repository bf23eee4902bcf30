// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "data/files/file_io.h"

// Private to data/.

namespace ventris::data {

/// A file that has no name while it is written (O_TMPFILE): nothing remains of it when the process ends in
/// any way. publish() fsyncs it, gives it the name PATH, and fsyncs the folder. An existing file of that name
/// is replaced atomically; for that moment the new file has a temporary name (data/files/temporary_name.h)
/// beside it. If the file system has no unnamed files, it has the temporary name from the start, and is
/// removed without publish(); the remains of a killed process are removed by the next one that writes PATH.
/// Nothing is written through a link, into a file created by others, or, if the folder was moved or replaced
/// meanwhile, into another folder. The mode is that of the umask, or that of the replaced file, with its
/// group and owner if permitted. Errors: DataError kCannotCreate and kIo with the path, the reason of the
/// system, and the free space.
class TemporaryFile {
 public:
  /// `expected_bytes`, if known, is the size of the whole file, for messages.
  explicit TemporaryFile(const std::string& path, int64_t expected_bytes = 0);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }
  int fd() const { return file_.fd(); }
  /// Writes all the bytes at an offset.
  void write(const void* data, int64_t bytes, int64_t offset);
  /// Writes pending data to the disk.
  void sync();
  void publish();
  /// Whether the file has its name: then it is complete, even if publish() failed afterwards.
  bool published() const { return published_; }
  /// Throws kIo: the path, `what`, the reason, and the bytes needed and free.
  [[noreturn]] void fail_writing(const std::string& what, const std::string& reason) const;

 private:
  /// Creates the file under a temporary name.
  void create_named();
  /// Throws kIo unless the folder of PATH is the one in which the file was created.
  void check_folder() const;
  void take_name();

  std::string path_;
  std::string temporary_;  // its name, or "" if it has none or that of path_
  int64_t expected_bytes_;
  bool size_is_known_;
  FileHandle file_;
  dev_t folder_device_ = 0;  // of the folder in which the file was created
  ino_t folder_number_ = 0;
  bool published_ = false;
};

}  // namespace ventris::data
