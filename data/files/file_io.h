#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <utility>

#include "data/error.h"
#include "data/files/digest.h"

// Private to data/: file descriptors.

namespace ventris::data {

/// Owns a file descriptor.
class FileHandle {
 public:
  FileHandle() = default;
  explicit FileHandle(int fd) : fd_(fd) {}
  ~FileHandle() { close(); }
  FileHandle(FileHandle&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileHandle& operator=(FileHandle&& other) noexcept {
    if (this != &other) {
      close();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }

  int fd() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void close();
  /// Gives up ownership.
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

/// The digest of bytes [begin, end) of an open file, read in pieces. Throws DataError kIo, naming `path`.
XXH128_canonical_t digest_of_range(int fd, int64_t begin, int64_t end, const std::string& path);

/// Writes all the bytes at an offset. Returns "", or the system's reason why they could not be written.
std::string write_all(int fd, const void* data, int64_t bytes, int64_t offset);
/// Reads all the bytes at an offset. Throws DataError kIo with the path and the system's reason.
void read_all(int fd, void* data, int64_t bytes, int64_t offset, const std::string& path);

/// A new file of the folder to be written and read, with a mode by the umask, that has no name and is gone
/// with its last descriptor; none where the file system has no such files, or where link_unnamed() could not
/// name it (without /proc).
FileHandle open_unnamed(const std::string& folder);
/// Gives such a file its first name, if nothing has it. Returns 0, or -1 and errno.
int link_unnamed(int fd, const std::string& path);

/// Writes the names in a folder to the disk. Returns 0 or errno. A folder that the file system cannot sync
/// (EINVAL) counts as synced.
int sync_folder(const std::string& folder);

/// The kind of failure of making a file or folder: kIo where the system has no room, inode or descriptor left
/// or its disk fails, which may pass; else kCannotCreate, which is of the place.
ErrorKind kind_of_creating(int error);

/// Throws for a file that could not be opened to be read: DataError kMissingInput where errno speaks of the
/// path, else kIo: a disk that fails, or no descriptor left.
[[noreturn]] void fail_opening(const std::string& path, int error);

/// Requires that a file may be made at the path by renaming: nothing is there, or a regular file. Throws
/// DataError kCannotCreate for a folder, a device or a pipe.
void check_is_no_other_thing(const std::string& path);

/// A file to be read, not valid where it cannot be opened (errno tells why). A pipe without a writer is not
/// waited for: that it is no regular file is for the caller to see.
FileHandle open_to_read(const std::string& path);

/// XXH3-128 of all bytes of a file, in hexadecimal digits. Throws DataError kMissingInput or kIo.
std::string digest_of_file(const std::string& path);

/// Whether something is at the path, or a folder. False also where it may not be looked at: opening it tells
/// why.
bool is_there(const std::string& path);
/// Gives what is open the owner, the group and these bits of the mode of another file or folder, as far as
/// the process may; where the group cannot be kept, it may do what all may.
void take_rights(int fd, const struct stat& of, mode_t bits);
/// The same of the file at `path`, if there is a regular one, without the bits that change who a program is.
void take_rights_of(const std::string& path, int fd);
bool is_folder(const std::string& path);

/// The folder of a path, "." if it names none; and the path without its folder.
std::string folder_of(const std::string& path);
std::string without_folder(const std::string& path);

/// The system's message for errno.
std::string system_reason(int error);

}  // namespace ventris::data
