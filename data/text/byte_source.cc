// SPDX-License-Identifier: Apache-2.0
#include "data/text/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "data/error.h"

namespace ventris::data {

namespace {

constexpr size_t kInputBytes = size_t{1} << 17;

}  // namespace

ByteSource::ByteSource(const std::string& path, const std::string& name)
    : path_(name),
      file_(path == "-" ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC)),
      input_(kInputBytes) {
  if (!file_.valid()) fail_opening(path_, errno);
  struct stat status {};
  if (::fstat(file_.fd(), &status) == 0 && S_ISDIR(status.st_mode)) {
    fail(ErrorKind::kMissingInput, "{}: is a folder, expected a text file", path_);
  }
}

size_t ByteSource::read(std::vector<char>& buffer, int64_t lines) {
  if (!form_is_known_) find_form(lines);
  return compression_ == nullptr ? take_plain(buffer, lines) : decompress_some(buffer, lines);
}

bool ByteSource::fill(int64_t lines) {
  if (at_end_) return false;
  if (begin_ == end_) begin_ = end_ = 0;
  ssize_t bytes = -1;
  do {
    bytes = ::read(file_.fd(), input_.data() + end_, input_.size() - end_);
  } while (bytes < 0 && errno == EINTR);
  if (bytes < 0) {
    fail(ErrorKind::kIo, "{}: cannot read after line {}: {}", path_, lines, system_reason(errno));
  }
  at_end_ = bytes == 0;
  end_ += static_cast<size_t>(bytes);
  bytes_read_ += bytes;
  return !at_end_;
}

void ByteSource::find_form(int64_t lines) {
  // The first byte that no magic has decides, without waiting for more.
  for (bool decided = false; !decided; decided = decided || !fill(lines)) {
    std::string head(reinterpret_cast<const char*>(input_.data()), std::min(end_, kLongestMagic));
    if (!head.empty() && (head[0] & 0xF0) == 0x50) head[0] = 0x50;
    decided = true;
    for (const Compression& form : compressions()) {
      if (head.starts_with(form.magic)) compression_ = &form;
      decided = decided && !(head.size() < form.magic.size() && form.magic.starts_with(head));
    }
  }
  form_is_known_ = true;
}

size_t ByteSource::take_plain(std::vector<char>& buffer, int64_t lines) {
  if (begin_ == end_) fill(lines);
  const size_t bytes = std::min(buffer.size(), end_ - begin_);
  std::memcpy(buffer.data(), input_.data() + begin_, bytes);
  begin_ += bytes;
  return bytes;
}

size_t ByteSource::decompress_some(std::vector<char>& buffer, int64_t lines) {
  const auto refuse = [&](const char* what, const std::string& reason) {
    fail(ErrorKind::kBadData, "{}:{}: the {} data is {}: {}. Fetch or compress the file again.", path_,
         lines + 1, compression_->name,
         follows_ ? "followed by other bytes, or by a damaged or incomplete part" : what, reason);
  };
  while (true) {
    if (!fault_.empty()) refuse("corrupt", fault_);
    const bool more = begin_ < end_ || fill(lines);
    if (decompressor_ == nullptr) {
      while (begin_ < end_ && input_[begin_] == 0) ++begin_;  // padding of tape blocks and of xz
      if (!more) return 0;
      if (begin_ == end_) continue;
      decompressor_ = compression_->make();
    }
    const Decompressor::Step step = decompressor_->step({input_.data() + begin_, end_ - begin_}, buffer);
    begin_ += step.taken;
    fault_ = step.fault;
    follows_ = step.ended || (follows_ && step.written == 0);
    if (step.ended) decompressor_.reset();
    if (step.written > 0) return step.written;
    if (!more && !step.ended && fault_.empty()) refuse("truncated", "unexpected end of file");
  }
}

}  // namespace ventris::data
