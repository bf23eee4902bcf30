#include "data/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "data/error.h"
#include "data/file_io.h"
#include "data/temporary_file.h"

namespace ventris::data {

AtomicFile::AtomicFile(const std::string& path) : file_(std::make_unique<TemporaryFile>(path)) {}

AtomicFile::~AtomicFile() = default;

void AtomicFile::write(const void* data, size_t bytes) {
  file_->write(data, static_cast<int64_t>(bytes), size_);
  size_ += static_cast<int64_t>(bytes);
}

void AtomicFile::replace(int64_t offset, std::string_view bytes) {
  file_->write(bytes.data(), static_cast<int64_t>(bytes.size()), offset);
}

void AtomicFile::commit() {
  file_->publish();
}

std::vector<uint8_t> read_file(const std::string& path) {
  const FileHandle file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!file.valid() || ::fstat(file.fd(), &status) != 0) {
    fail_opening(path, errno);
  }
  if (!S_ISREG(status.st_mode)) fail(ErrorKind::kMissingInput, "{}: is not a regular file", path);
  std::vector<uint8_t> bytes(static_cast<size_t>(status.st_size));
  read_all(file.fd(), bytes.data(), status.st_size, 0, path);
  return bytes;
}

}  // namespace ventris::data
