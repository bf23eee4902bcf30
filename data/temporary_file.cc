#include "data/temporary_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "data/disk_room.h"
#include "data/error.h"
#include "data/temporary_name.h"

namespace ventris::data {

TemporaryFile::TemporaryFile(const std::string& path, int64_t expected_bytes)
    : path_(path), temporary_(temporary_name(path)), expected_bytes_(expected_bytes) {
  check_is_no_other_thing(path_);
  file_ = FileHandle(::open(temporary_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file_.valid()) {
    const int error = errno;
    fail(ErrorKind::kCannotCreate, "{}: cannot create a file in the folder {}: {}.{}", path_,
         folder_of(path_), system_reason(error), room_at(path_));
  }
}

TemporaryFile::~TemporaryFile() {
  if (!published_) ::unlink(temporary_.c_str());
}

void TemporaryFile::write(const void* data, int64_t bytes, int64_t offset) {
  expected_bytes_ = std::max(expected_bytes_, offset + bytes);
  const std::string reason = write_all(file_.fd(), data, bytes, offset);
  if (!reason.empty()) fail_writing(fmt::format("cannot write {} bytes at byte {}", bytes, offset), reason);
}

void TemporaryFile::publish() {
  if (::fsync(file_.fd()) != 0) fail_writing("cannot write the file to the disk", system_reason(errno));
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    fail_writing(fmt::format("cannot rename {} to it", temporary_), system_reason(errno));
  }
  published_ = true;
  const FileHandle folder(::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some file systems cannot sync a folder (EINVAL); the file itself is safe then.
  if (!folder.valid() || (::fsync(folder.fd()) != 0 && errno != EINVAL)) {
    fail(ErrorKind::kIo, "{}: the file is complete, but its folder cannot be written to the disk: {}", path_,
         system_reason(errno));
  }
}

void TemporaryFile::fail_writing(const std::string& what, const std::string& reason) const {
  struct stat status {};
  const int64_t written = ::fstat(file_.fd(), &status) == 0 ? int64_t{status.st_blocks} * 512 : 0;
  fail(ErrorKind::kIo,
       "{}: {}: {}. The file needs {} bytes, of which {} are on the disk.{} Free some space or write "
       "elsewhere",
       path_, what, reason, expected_bytes_, std::min(written, expected_bytes_), room_at(path_));
}

}  // namespace ventris::data
