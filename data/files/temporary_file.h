#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "data/files/file_io.h"

// Private to data/.

namespace ventris::data {

/// A file that has no name while it is written (O_TMPFILE): nothing is left of it however the process ends.
/// publish() fsyncs it, gives it the name PATH, and fsyncs the folder. Where another file has that name, it
/// is replaced at once; for that moment the file has a temporary name (data/files/temporary_name.h) beside
/// it. Where the file system has no files without names, it has the temporary one from the start, and is
/// removed without publish(); what a process that was killed left behind is removed by the next that writes
/// PATH. Nothing is written through a link or into a file that others made, nor, where the folder was moved
/// or replaced meanwhile, into another folder. The mode is that of the umask, or that of the file which it
/// replaces, with its group and owner, as far as the process may give them. Errors:
/// DataError kCannotCreate and kIo with the path, the reason of the system, and the room there is.
class TemporaryFile {
 public:
  /// `expected_bytes`, if known, are those of the whole file, for messages.
  explicit TemporaryFile(const std::string& path, int64_t expected_bytes = 0);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }
  int fd() const { return file_.fd(); }
  /// Writes all the bytes at an offset.
  void write(const void* data, int64_t bytes, int64_t offset);
  /// Brings what was written to the disk.
  void sync();
  void publish();
  /// Whether the file has its name: then it is whole, even where publish() failed after that.
  bool published() const { return published_; }
  /// Throws kIo: the path, `what`, the reason, and how many bytes are needed and free.
  [[noreturn]] void fail_writing(const std::string& what, const std::string& reason) const;

 private:
  /// Makes the file under a temporary name.
  void create_named();
  /// Throws kIo unless the folder of PATH is the one that the file was made in.
  void check_folder() const;
  void take_name();

  std::string path_;
  std::string temporary_;  // its name, or "" where it has none or that of path_
  int64_t expected_bytes_;
  bool size_is_known_;
  FileHandle file_;
  dev_t folder_device_ = 0;  // of the folder that the file was made in
  ino_t folder_number_ = 0;
  bool published_ = false;
};

}  // namespace ventris::data
