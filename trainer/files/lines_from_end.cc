// SPDX-License-Identifier: Apache-2.0
#include "trainer/files/lines_from_end.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "backend/error.h"
#include "data/files/file_io.h"
#include "trainer/files/json_text.h"

namespace ventris {
namespace {

constexpr int64_t kBlockBytes = int64_t{64} << 10;

int64_t file_size(int fd, const std::string& path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0)
    fail(ExitCode::kIo, "{}: cannot read the file: {}", path, std::strerror(errno));
  return status.st_size;
}

}  // namespace

LinesFromEnd::LinesFromEnd(int fd, std::string path)
    : fd_(fd), path_(std::move(path)), begin_(file_size(fd, path_)) {}

void LinesFromEnd::read_block() {
  const int64_t bytes = std::min(begin_, kBlockBytes);
  std::string block(static_cast<size_t>(bytes), '\0');
  begin_ -= bytes;
  data::read_all(fd_, block.data(), bytes, begin_, path_);
  buffer_.insert(0, block);
}

bool LinesFromEnd::previous(FileLine& line) {
  if (buffer_.empty() && begin_ == 0) return false;
  if (buffer_.empty()) read_block();
  line = {.has_end = buffer_.back() == '\n', .end = begin_ + static_cast<int64_t>(buffer_.size())};
  if (line.has_end) buffer_.pop_back();
  size_t before = std::string::npos;  // the line end of the line before
  while ((before = buffer_.rfind('\n')) == std::string::npos && begin_ > 0) {
    if (buffer_.size() > kMaxJsonBytes) {
      line.too_long = true;
      buffer_.clear();
    }
    read_block();
  }
  const size_t begin = before == std::string::npos ? 0 : before + 1;
  line.begin = begin_ + static_cast<int64_t>(begin);
  line.too_long = line.too_long || buffer_.size() - begin > kMaxJsonBytes;
  if (!line.too_long) line.text = buffer_.substr(begin);
  buffer_.resize(begin);
  return true;
}

}  // namespace ventris
