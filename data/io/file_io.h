// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <utility>

#include "data/error.h"
#include "data/io/digest.h"

// File descriptors, folders and paths.

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

 private:
  int fd_ = -1;
};

/// The digest of bytes [begin, end) of an open file, read in pieces. Throws DataError kIo, naming `path`.
XXH128_canonical_t digest_of_range(int fd, int64_t begin, int64_t end, const std::string& path);

/// Writes all the bytes at an offset. Returns "", or the system's reason for a failure.
std::string write_all(int fd, const void* data, int64_t bytes, int64_t offset);
/// Reads all the bytes at an offset. Throws DataError kIo with the path and the system's reason.
void read_all(int fd, void* data, int64_t bytes, int64_t offset, const std::string& path);

/// A new unnamed file in the folder for writing and reading, with a mode by the umask, that is removed with
/// its last descriptor; not valid if the file system has no such files, or link_unnamed() could not name it
/// (without /proc).
FileHandle open_unnamed(const std::string& folder);
/// Gives such a file its first name, if that does not exist. Returns 0, or -1 and errno.
int link_unnamed(int fd, const std::string& path);

/// Creates a folder and its missing ancestors, with modes by the umask, and syncs their names: files that are
/// later synced in the folder survive a power loss. Throws DataError kCannotCreate if one cannot be created,
/// kIo if its name cannot be synced.
void make_folders(const std::string& path);
/// Whether an open file or folder is the one at the path.
bool is_at(int fd, const std::string& path);

/// Syncs the names in a folder. Returns 0 or errno. A folder that the file system cannot sync (EINVAL) counts
/// as synced.
int sync_folder(const std::string& folder);

/// The kind of failure of creating a file or folder: kIo if the system has no space, inode or descriptor left
/// or its disk fails, which may be temporary; otherwise kCannotCreate, which depends on the path.
ErrorKind kind_of_creating(int error);

/// Throws for a file that could not be opened for reading: DataError kMissingInput if errno concerns the
/// path, otherwise kIo: a failing disk, or no descriptor left.
[[noreturn]] void fail_opening(const std::string& path, int error);

/// Checks that a file can be renamed to the path: it does not exist or is a regular file. Throws DataError
/// kCannotCreate for a folder, a device or a pipe.
void check_replaceable(const std::string& path);

/// A file for reading, not valid if it cannot be opened (see errno). Does not wait for the writer of a pipe:
/// the caller must check that it is a regular file.
FileHandle open_to_read(const std::string& path);

/// XXH3-128 of all bytes of a file, in hexadecimal digits. Throws DataError kMissingInput or kIo.
std::string digest_of_file(const std::string& path);

/// Whether the path exists, or is a folder. Also false without permission to check: opening it gives the
/// reason.
bool is_there(const std::string& path);
bool is_folder(const std::string& path);

/// Gives an open file or folder the owner, the group and these bits of the mode of another one, if permitted;
/// if the group cannot be kept, it gets the permissions of others.
void take_permissions(int fd, const struct stat& of, mode_t bits);
/// The same with those of the file at `path`, if it is a regular file, without the set-user-id and
/// set-group-id bits.
void take_permissions_of(const std::string& path, int fd);

/// The folder of a path, "." if it has none; and the path without its folder.
std::string folder_of(const std::string& path);
std::string without_folder(const std::string& path);
/// The path without the slashes at its end.
std::string without_slash(const std::string& path);

/// The space for a file at the path, as sentences, each with a leading space: free bytes of the disk, and
/// limits of this process.
std::string room_at(const std::string& path);

/// The system's message for errno.
std::string system_reason(int error);

}  // namespace ventris::data
