#include "data/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "data/error.h"
#include "data/file_io.h"

namespace ventris::data {

AtomicFile::AtomicFile(const std::string& path)
    : path_(path), temporary_(fmt::format("{}.tmp.{}", path, ::getpid())) {
  check_is_no_other_thing(path_);
  file_ =
      std::make_unique<FileHandle>(::open(temporary_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file_->valid()) {
    const int error = errno;
    fail(ErrorKind::kCannotCreate, "{}: cannot create a file in the folder {}: {}", path_, folder_of(path_),
         system_reason(error));
  }
}

AtomicFile::~AtomicFile() {
  if (!committed_) ::unlink(temporary_.c_str());
}

void AtomicFile::write(const void* data, size_t bytes) {
  write_all(file_->fd(), data, static_cast<int64_t>(bytes), size_, path_);
  size_ += static_cast<int64_t>(bytes);
}

void AtomicFile::replace(int64_t offset, std::string_view bytes) {
  write_all(file_->fd(), bytes.data(), static_cast<int64_t>(bytes.size()), offset, path_);
}

void AtomicFile::commit() {
  if (::fsync(file_->fd()) != 0) {
    fail(ErrorKind::kIo, "{}: cannot write the file to the disk: {}", path_, system_reason(errno));
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    fail(ErrorKind::kIo, "{}: cannot rename {} to it: {}", path_, temporary_, system_reason(errno));
  }
  committed_ = true;
  const FileHandle folder(::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some file systems cannot sync a folder (EINVAL); the file itself is safe then.
  if (!folder.valid() || (::fsync(folder.fd()) != 0 && errno != EINVAL)) {
    fail(ErrorKind::kIo, "{}: the file is complete, but its folder cannot be written to the disk: {}", path_,
         system_reason(errno));
  }
}

std::vector<uint8_t> read_file(const std::string& path) {
  const FileHandle file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!file.valid() || ::fstat(file.fd(), &status) != 0) {
    fail(ErrorKind::kMissingInput, "{}: cannot open the file: {}", path, system_reason(errno));
  }
  if (!S_ISREG(status.st_mode)) fail(ErrorKind::kMissingInput, "{}: is not a regular file", path);
  std::vector<uint8_t> bytes(static_cast<size_t>(status.st_size));
  read_all(file.fd(), bytes.data(), status.st_size, 0, path);
  return bytes;
}

}  // namespace ventris::data
