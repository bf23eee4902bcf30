#include "data/text/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "data/error.h"

namespace ventris::data {

namespace {

constexpr size_t kInputBytes = size_t{1} << 17;
constexpr size_t kMagicBytes = 2;
constexpr int kGzipWindow = 15 + 16;  // of inflateInit2: the largest window, and a gzip header

bool has_magic(const unsigned char* bytes, size_t size) {
  return size >= kMagicBytes && bytes[0] == 0x1F && bytes[1] == 0x8B;
}

}  // namespace

ByteSource::ByteSource(const std::string& path)
    : path_(path == "-" ? "standard input" : path),
      file_(path == "-" ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC)),
      input_(kInputBytes) {
  if (!file_.valid()) fail_opening(path_, errno);
  struct stat status {};
  if (::fstat(file_.fd(), &status) == 0 && S_ISDIR(status.st_mode)) {
    fail(ErrorKind::kMissingInput, "{}: is a folder, expected a text file", path_);
  }
}

ByteSource::~ByteSource() {
  if (form_ == Form::kGzip) inflateEnd(&stream_);
}

size_t ByteSource::read(std::vector<char>& buffer, int64_t lines) {
  if (form_ == Form::kUnknown) find_form(lines);
  return form_ == Form::kPlain ? take_plain(buffer, lines) : inflate_some(buffer, lines);
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
  return !at_end_;
}

void ByteSource::find_form(int64_t lines) {
  // One byte that is not the first of the mark decides, without waiting for a second.
  while (end_ < kMagicBytes && (end_ == 0 || input_[0] == 0x1F) && fill(lines)) {
  }
  if (has_magic(input_.data(), end_)) {
    form_ = Form::kGzip;
    if (inflateInit2(&stream_, kGzipWindow) != Z_OK) throw std::bad_alloc();
  } else {
    form_ = Form::kPlain;
  }
}

size_t ByteSource::take_plain(std::vector<char>& buffer, int64_t lines) {
  if (begin_ == end_) fill(lines);
  const size_t bytes = std::min(buffer.size(), end_ - begin_);
  std::memcpy(buffer.data(), input_.data() + begin_, bytes);
  begin_ += bytes;
  return bytes;
}

size_t ByteSource::inflate_some(std::vector<char>& buffer, int64_t lines) {
  size_t bytes = 0;
  while (bytes == 0) {
    if (member_ended_ && !begin_next_member(lines)) break;
    const bool more = begin_ < end_ || fill(lines);
    stream_.next_in = input_.data() + begin_;
    stream_.avail_in = static_cast<unsigned>(end_ - begin_);
    stream_.next_out = reinterpret_cast<unsigned char*>(buffer.data());
    stream_.avail_out = static_cast<unsigned>(buffer.size());
    const int code = inflate(&stream_, Z_NO_FLUSH);
    begin_ = end_ - stream_.avail_in;
    bytes = buffer.size() - stream_.avail_out;
    if (code == Z_MEM_ERROR) throw std::bad_alloc();
    if (code == Z_STREAM_END) {
      member_ended_ = true;
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      refuse("corrupt", stream_.msg == nullptr ? "invalid data" : stream_.msg, lines);
    } else if (bytes == 0 && !more) {
      refuse("truncated", "unexpected end of file", lines);
    }
  }
  return bytes;
}

void ByteSource::refuse(const char* what, const char* reason, int64_t lines) const {
  fail(ErrorKind::kBadData, "{}:{}: the gzip data is {}: {}. Fetch or compress the file again.", path_,
       lines + 1, what, reason);
}

bool ByteSource::begin_next_member(int64_t lines) {
  while (true) {
    while (begin_ < end_ && input_[begin_] == 0) ++begin_;  // zero padding of tape blocks
    if (end_ - begin_ >= kMagicBytes) break;
    std::memmove(input_.data(), input_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    if (!fill(lines)) break;
  }
  if (begin_ == end_) return false;
  if (!has_magic(input_.data() + begin_, end_ - begin_)) {
    refuse("followed by other bytes", "no gzip header after its first part", lines);
  }
  inflateReset(&stream_);
  member_ended_ = false;
  return true;
}

}  // namespace ventris::data
