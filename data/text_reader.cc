#include "data/text_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "data/error.h"
#include "data/file_io.h"

namespace ventris::data {

namespace {

constexpr size_t kBufferBytes = size_t{1} << 18;

}  // namespace

struct TextReader::Impl {
  std::string path;
  int64_t max_line_bytes;
  int64_t line_number = 0;
  gzFile file = nullptr;
  std::vector<char> buffer = std::vector<char>(kBufferBytes);
  size_t begin = 0;
  size_t end = 0;

  Impl(std::string file_path, int64_t max_bytes) : path(std::move(file_path)), max_line_bytes(max_bytes) {
    FileHandle input(path == "-" ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (path == "-") path = "standard input";
    if (!input.valid()) fail_opening(path, errno);
    struct stat status {};
    if (::fstat(input.fd(), &status) == 0 && S_ISDIR(status.st_mode)) {
      fail(ErrorKind::kMissingInput, "{}: a folder, where a text file is expected", path);
    }
    file = gzdopen(input.fd(), "rb");
    if (file == nullptr) {
      fail(ErrorKind::kIo, "{}: cannot read the file: {}", path, system_reason(errno));
    }
    input.release();
    gzbuffer(file, kBufferBytes);
  }

  ~Impl() { gzclose(file); }

  /// Reads on; false at the end of the text.
  bool fill() {
    const int bytes = gzread(file, buffer.data(), static_cast<unsigned>(buffer.size()));
    int code = Z_OK;
    const char* const message = gzerror(file, &code);
    if (code == Z_ERRNO) {
      fail(ErrorKind::kIo, "{}: cannot read on after line {}: {}", path, line_number, system_reason(errno));
    }
    // zlib hands over what it has of a truncated stream, with this code.
    if (bytes < 0 || code == Z_BUF_ERROR) {
      // The message begins with a name for the descriptor, which says nothing.
      const char* const reason = std::strncmp(message, "<fd:", 4) == 0 ? std::strchr(message, ' ') : nullptr;
      fail(ErrorKind::kBadData, "{}:{}: the gzip data is {}: {}. Fetch or compress the file again.", path,
           line_number + 1, code == Z_BUF_ERROR ? "truncated" : "corrupt",
           reason == nullptr ? message : reason + 1);
    }
    begin = 0;
    end = static_cast<size_t>(bytes);
    return bytes > 0;
  }
};

TextReader::TextReader(std::string path, int64_t max_line_bytes)
    : impl_(std::make_unique<Impl>(std::move(path), max_line_bytes)) {}
TextReader::~TextReader() = default;

bool TextReader::next(std::string& line) {
  Impl& in = *impl_;
  line.clear();
  bool started = false;
  for (;;) {
    if (in.begin == in.end && !in.fill()) {
      in.line_number += started ? 1 : 0;
      return started;
    }
    started = true;
    const char* const from = in.buffer.data() + in.begin;
    const size_t left = in.end - in.begin;
    const auto* const line_end = static_cast<const char*>(std::memchr(from, '\n', left));
    const size_t bytes = line_end == nullptr ? left : static_cast<size_t>(line_end - from);
    if (static_cast<int64_t>(line.size() + bytes) > in.max_line_bytes) {
      fail(ErrorKind::kBadData, "{}:{}: the line is longer than {} bytes; one sentence a line is expected",
           in.path, in.line_number + 1, in.max_line_bytes);
    }
    line.append(from, bytes);
    in.begin += bytes;
    if (line_end != nullptr) {
      ++in.begin;
      ++in.line_number;
      return true;
    }
  }
}

int64_t TextReader::line_number() const {
  return impl_->line_number;
}
const std::string& TextReader::path() const {
  return impl_->path;
}

int64_t find_invalid_utf8(std::string_view text) {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(text.data());
  const size_t size = text.size();
  size_t i = 0;
  while (i < size) {
    if (i + 8 <= size) {
      uint64_t eight;
      std::memcpy(&eight, bytes + i, 8);
      if ((eight & 0x8080808080808080ull) == 0) {
        i += 8;
        continue;
      }
    }
    const unsigned char lead = bytes[i];
    if (lead < 0x80) {
      ++i;
      continue;
    }
    // RFC 3629: how many bytes follow, and the bounds of the first of them (no overlong forms, surrogates, or
    // above 10FFFF).
    size_t following = 0;
    unsigned char low = 0x80;
    unsigned char high = 0xBF;
    if (lead >= 0xC2 && lead <= 0xDF) {
      following = 1;
    } else if (lead >= 0xE0 && lead <= 0xEF) {
      following = 2;
      low = lead == 0xE0 ? 0xA0 : low;
      high = lead == 0xED ? 0x9F : high;
    } else if (lead >= 0xF0 && lead <= 0xF4) {
      following = 3;
      low = lead == 0xF0 ? 0x90 : low;
      high = lead == 0xF4 ? 0x8F : high;
    } else {
      return static_cast<int64_t>(i);
    }
    for (size_t k = 1; k <= following; ++k) {
      if (i + k >= size || bytes[i + k] < low || bytes[i + k] > high) {
        return static_cast<int64_t>(i);
      }
      low = 0x80;
      high = 0xBF;
    }
    i += following + 1;
  }
  return -1;
}

}  // namespace ventris::data
