// SPDX-License-Identifier: Apache-2.0
#include "data/io/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "data/error.h"
#include "data/io/folder_lock.h"
#include "data/io/temporary_name.h"

namespace ventris::data {

AtomicFile::AtomicFile(const std::string& path, int64_t expected_bytes)
    : path_(path), expected_bytes_(expected_bytes), size_is_known_(expected_bytes > 0) {
  check_replaceable(path_);
  remove_abandoned(path_);
  const std::string folder = folder_of(path_);
  folder_ = FileHandle(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder_.valid()) fail_creating(errno);
  file_ = open_unnamed(folder);
  if (!file_.valid()) create_named();
}

void AtomicFile::fail_creating(int error) const {
  fail(kind_of_creating(error), "{}: cannot create a file in the folder {}: {}.{}", path_, folder_of(path_),
       system_reason(error), room_at(path_));
}

void AtomicFile::remove_name() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
  folder_.close();
}

void AtomicFile::check_folder() const {
  const std::string folder = folder_of(path_);
  if (is_at(folder_.fd(), folder) && is_held_or_free(folder)) return;
  fail(ErrorKind::kIo,
       "{}: the folder was moved, removed or replaced while the file was written; the file is discarded",
       path_);
}

void AtomicFile::create_named() {
  const std::string name = temporary_name(path_);
  file_ = FileHandle(::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!file_.valid()) fail_creating(errno);
  temporary_ = name;
  take_permissions_of(path_, file_.fd());  // before there are data to read
  mark_as_being_written(file_.fd());
}

AtomicFile::~AtomicFile() {
  remove_name();
}

void AtomicFile::write(const void* data, size_t bytes) {
  constexpr size_t kBufferBytes = size_t{1} << 16;
  if (buffer_.size() + bytes > kBufferBytes) flush();
  if (bytes > kBufferBytes) {
    write_at(written_, data, static_cast<int64_t>(bytes));
    written_ += static_cast<int64_t>(bytes);
    return;
  }
  const char* const from = static_cast<const char*>(data);
  buffer_.insert(buffer_.end(), from, from + bytes);
}

void AtomicFile::flush() {
  const std::vector<char> pending = std::exchange(buffer_, {});
  write_at(written_, pending.data(), std::ssize(pending));
  written_ += std::ssize(pending);
}

void AtomicFile::write_at(int64_t offset, const void* data, int64_t bytes) {
  if (!buffer_.empty()) flush();
  expected_bytes_ = std::max(expected_bytes_, offset + bytes);
  const std::string reason = write_all(file_.fd(), data, bytes, offset);
  if (!reason.empty()) fail_writing(fmt::format("cannot write {} bytes at byte {}", bytes, offset), reason);
}

void AtomicFile::take_name() {
  if (temporary_.empty()) {
    if (link_unnamed(file_.fd(), path_) == 0) return;
    const std::string name = temporary_name(path_);
    const int error = errno == EEXIST ? (link_unnamed(file_.fd(), name) == 0 ? 0 : errno) : errno;
    if (error != 0) fail_writing("cannot give the file its name", system_reason(error));
    temporary_ = name;
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    if (errno == EPERM || errno == EACCES) {
      fail(ErrorKind::kCannotCreate, "{}: cannot replace the file of this name: {}. Write elsewhere", path_,
           system_reason(errno));
    }
    fail_writing(fmt::format("cannot rename {} to it", temporary_), system_reason(errno));
  }
  temporary_.clear();
}

void AtomicFile::sync() {
  flush();
  if (::fsync(file_.fd()) != 0) fail_writing("cannot write the file to the disk", system_reason(errno));
}

void AtomicFile::commit() {
  sync();
  check_folder();
  take_permissions_of(path_, file_.fd());
  take_name();
  committed_ = true;
  if (const int error = sync_folder(folder_of(path_)); error != 0) {
    fail(ErrorKind::kIo, "{}: the file is complete, but its folder cannot be written to the disk: {}", path_,
         system_reason(error));
  }
}

void AtomicFile::fail_writing(const std::string& what, const std::string& reason) const {
  struct stat status {};
  const int64_t written = ::fstat(file_.fd(), &status) == 0 ? int64_t{status.st_blocks} * 512 : 0;
  fail(ErrorKind::kIo,
       "{}: {}: {}. The file needs {}{} bytes, of which {} are on the disk.{} Free space or write elsewhere",
       path_, what, reason, size_is_known_ ? "" : "at least ", expected_bytes_,
       std::min(written, expected_bytes_), room_at(path_));
}

void write_file_atomically(const std::string& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

void sync_file(const std::string& path) {
  const FileHandle file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid() && errno == ENOENT) return;
  if (!file.valid() || ::fsync(file.fd()) != 0) {
    fail(ErrorKind::kIo, "{}: cannot write the file to the disk: {}.{}", path, system_reason(errno),
         room_at(path));
  }
}

std::vector<uint8_t> read_file(const std::string& path, int64_t max_bytes) {
  const FileHandle file = open_to_read(path);
  struct stat status {};
  if (!file.valid() || ::fstat(file.fd(), &status) != 0) {
    fail_opening(path, errno);
  }
  if (!S_ISREG(status.st_mode)) fail(ErrorKind::kMissingInput, "{}: is not a regular file", path);
  if (status.st_size > max_bytes) {
    fail(ErrorKind::kBadData, "{}: has {} bytes, expected at most {}: is it the right file?", path,
         status.st_size, max_bytes);
  }
  std::vector<uint8_t> bytes(static_cast<size_t>(status.st_size));
  read_all(file.fd(), bytes.data(), status.st_size, 0, path);
  return bytes;
}

}  // namespace ventris::data
