// SPDX-License-Identifier: Apache-2.0
#include "data/files/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "data/error.h"
#include "data/files/disk_room.h"
#include "data/files/file_io.h"
#include "data/files/temporary_file.h"

namespace ventris::data {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 16;

}  // namespace

AtomicFile::AtomicFile(const std::string& path) : file_(std::make_unique<TemporaryFile>(path)) {}

AtomicFile::~AtomicFile() = default;

void AtomicFile::write(const void* data, size_t bytes) {
  if (buffer_.size() + bytes > kBufferBytes) flush();
  if (bytes > kBufferBytes) {
    file_->write(data, static_cast<int64_t>(bytes), written_);
    written_ += static_cast<int64_t>(bytes);
    return;
  }
  const char* const from = static_cast<const char*>(data);
  buffer_.insert(buffer_.end(), from, from + bytes);
}

void AtomicFile::flush() {
  if (buffer_.empty()) return;
  file_->write(buffer_.data(), static_cast<int64_t>(buffer_.size()), written_);
  written_ += static_cast<int64_t>(buffer_.size());
  buffer_.clear();
}

void AtomicFile::replace(int64_t offset, std::string_view bytes) {
  flush();
  file_->write(bytes.data(), static_cast<int64_t>(bytes.size()), offset);
}

void AtomicFile::sync() {
  flush();
  file_->sync();
}

void AtomicFile::commit() {
  flush();
  file_->publish();
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
