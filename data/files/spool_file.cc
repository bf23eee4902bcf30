// SPDX-License-Identifier: Apache-2.0
#include "data/files/spool_file.h"

#include <fcntl.h>

#include <algorithm>

#include "data/error.h"
#include "data/files/disk_room.h"

namespace ventris::data {

namespace {

constexpr size_t kSpoolBufferBytes = size_t{1} << 20;

}  // namespace

SpoolFile::SpoolFile(const std::string& output, ElementType type)
    : output_(output),
      type_(type),
      width_(static_cast<int64_t>(size_of(type))),
      file_(open_scratch(output)) {}

void SpoolFile::append(const void* data, int64_t count) {
  const char* const bytes = static_cast<const char*>(data);
  buffer_.insert(buffer_.end(), bytes, bytes + count * width_);
  if (buffer_.size() >= kSpoolBufferBytes) {
    flush();
  }
}

void SpoolFile::flush() {
  const std::string reason =
      write_all(file_.fd(), buffer_.data(), static_cast<int64_t>(buffer_.size()), written_);
  if (!reason.empty()) {
    fail(ErrorKind::kIo, "{}: cannot write {} bytes of working data after {}: {}.{} Free space", output_,
         buffer_.size(), written_, reason, room_at(output_));
  }
  written_ += static_cast<int64_t>(buffer_.size());
  buffer_.clear();
}

void SpoolFile::copy_to(Hdf5Writer& writer, const std::string& name) {
  flush();
  writer.create(name, type_, size());
  std::vector<char> piece(kSpoolBufferBytes);
  for (int64_t at = 0; at < written_;) {
    const int64_t bytes = std::min<int64_t>(written_ - at, static_cast<int64_t>(kSpoolBufferBytes));
    read_all(file_.fd(), piece.data(), bytes, at, output_);
    writer.append(name, piece.data(), bytes / width_);
    // What was copied is not needed twice; a file system without holes keeps it.
    static_cast<void>(::fallocate(file_.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, bytes));
    at += bytes;
  }
}

}  // namespace ventris::data
