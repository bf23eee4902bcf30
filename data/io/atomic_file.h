// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "data/io/file_io.h"

namespace ventris::data {

/// A file that appears under its name PATH, complete and synced, at commit(), in place of an existing one. It
/// has no name while it is written (O_TMPFILE), so that nothing remains of it when the process ends in any
/// way, or, if the file system has no such files, a temporary one beside PATH (data/io/temporary_name.h):
/// then it is removed without commit(), and the next one that writes PATH removes the remains of a killed
/// process. Nothing is written through a link, into a file created by others, or, if the folder was moved or
/// replaced meanwhile, into another folder. The mode is that of the umask, or that of the replaced file, with
/// its group and owner if permitted. Errors: DataError kCannotCreate and kIo with the path, the reason of the
/// system, and the free space.
class AtomicFile {
 public:
  /// `expected_bytes`, if known, is the size of the whole file, for messages.
  explicit AtomicFile(const std::string& path, int64_t expected_bytes = 0);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends to what write() appended before; buffered.
  void write(const void* data, size_t bytes);
  void write(std::string_view bytes) { write(bytes.data(), bytes.size()); }
  /// Writes at an offset, also over bytes that were written before.
  void write_at(int64_t offset, const void* data, int64_t bytes);
  int64_t size() const { return written_ + static_cast<int64_t>(buffer_.size()); }  // what write() appended
  /// Writes what is buffered to the file.
  void flush();
  /// Writes pending data to the disk, so that commit() has little left to write.
  void sync();
  void commit();
  /// Removes its temporary name, if it has one, and closes its folder: of working data, for which commit() is
  /// never called.
  void remove_name();
  /// Whether the file has its name: then it is complete, even if commit() failed afterwards.
  bool committed() const { return committed_; }

  const std::string& path() const { return path_; }
  int fd() const { return file_.fd(); }
  /// Throws kIo: the path, `what`, the reason, and the bytes needed and free.
  [[noreturn]] void fail_writing(const std::string& what, const std::string& reason) const;

 private:
  [[noreturn]] void fail_creating(int error) const;
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
  FileHandle folder_;         // in which the file was created
  int64_t written_ = 0;       // bytes that write() appended
  std::vector<char> buffer_;  // those that are not yet in the file
  bool committed_ = false;
};

/// Writes a small file: AtomicFile with `content`.
void write_file_atomically(const std::string& path, std::string_view content);

/// Syncs data that was appended to a file; does nothing if there is no file. Throws DataError kIo.
void sync_file(const std::string& path);

/// Limits far above the size of legitimate files of these kinds.
inline constexpr int64_t kMaxTokenizerBytes = int64_t{256} << 20;  // a SentencePiece model, a vocabulary
inline constexpr int64_t kMaxTextBytes = int64_t{64} << 20;        // config.json and others of a run folder
inline constexpr int64_t kAnyBytes = std::numeric_limits<int64_t>::max();

/// All bytes of a regular file. Throws DataError kMissingInput, kIo, or kBadData if it has more than
/// `max_bytes`.
std::vector<uint8_t> read_file(const std::string& path, int64_t max_bytes);

}  // namespace ventris::data
