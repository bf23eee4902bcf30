// SPDX-License-Identifier: Apache-2.0
#include "data/text/text_reader.h"

#include <fcntl.h>
#include <lzma.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/error.h"
#include "data/io/file_io.h"
#include "data/text/unicode.h"

namespace ventris::data {

/// Decompresses a part of a file: a member of gzip, a stream of xz or a frame of zstd.
class Decompressor {
 public:
  struct Step {
    size_t taken = 0;
    size_t written = 0;
    bool ended = false;      // the part is complete
    std::string fault = {};  // why it cannot be read, or empty
  };

  virtual ~Decompressor() = default;
  /// Takes bytes from `in` and writes to `out` until one of them is used up or the part ends. Throws
  /// std::bad_alloc.
  virtual Step step(std::span<const unsigned char> in, std::span<char> out) = 0;
};

/// A form of compressed data, known by its first bytes.
struct Compression {
  const char* name;  // for messages
  std::string_view magic;
  std::unique_ptr<Decompressor> (*make)();
};

constexpr size_t kLongestMagic = 6;

/// The bytes of a file, plain or compressed by gzip, xz or zstd, or of the standard input ("-"), as soon as
/// they are available: a read from a pipe or a terminal returns after the first data.
class ByteSource {
 public:
  /// Throws DataError kMissingInput if there is no such file, or it is a folder.
  explicit ByteSource(const std::string& path);
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  /// Overwrites the buffer; returns the number of bytes read, 0 at the end. `lines`, read so far, are for the
  /// messages of errors: DataError kIo, or kBadData for compressed data that is truncated or corrupt.
  size_t read(std::vector<char>& buffer, int64_t lines);
  const std::string& path() const { return path_; }   // "standard input" for "-"
  int64_t bytes_read() const { return bytes_read_; }  // of the file, as it is compressed

 private:
  /// Appends the bytes of one system call; false at the end of the file.
  bool fill(int64_t lines);
  void find_form(int64_t lines);
  size_t take_plain(std::vector<char>& buffer, int64_t lines);
  size_t decompress_some(std::vector<char>& buffer, int64_t lines);
  std::string path_;
  FileHandle file_;
  bool form_is_known_ = false;
  const Compression* compression_ = nullptr;    // null: plain
  std::unique_ptr<Decompressor> decompressor_;  // null between parts
  std::string fault_;                           // of what follows the text that was returned last
  bool follows_ = false;                        // a part has ended, and what follows has given no text yet
  std::vector<unsigned char> input_;            // read, and not yet consumed from `begin_` on
  size_t begin_ = 0;
  size_t end_ = 0;
  bool at_end_ = false;  // of the file: another read of a terminal could return more
  int64_t bytes_read_ = 0;
};

namespace {

// What `xz -9` and `zstd --ultra -22` need at most; more would let a small file exhaust the memory.
constexpr uint64_t kMaxMemory = uint64_t{144} << 20;
constexpr int kLargestZstdWindow = 27;  // bits: 128 MiB, as the program allows without --long
constexpr const char* kTooMuchMemory =
    "it needs more memory than any level of the program; compress it without a larger dictionary";

class GzipDecompressor final : public Decompressor {
 public:
  GzipDecompressor() {
    constexpr int kGzipWindow = 15 + 16;  // the largest window, and a gzip header
    if (inflateInit2(&stream_, kGzipWindow) != Z_OK) throw std::bad_alloc();
  }
  ~GzipDecompressor() override { inflateEnd(&stream_); }

  Step step(std::span<const unsigned char> in, std::span<char> out) override {
    stream_.next_in = const_cast<unsigned char*>(in.data());
    stream_.avail_in = static_cast<unsigned>(in.size());
    stream_.next_out = reinterpret_cast<unsigned char*>(out.data());
    stream_.avail_out = static_cast<unsigned>(out.size());
    const int code = inflate(&stream_, Z_NO_FLUSH);
    if (code == Z_MEM_ERROR) throw std::bad_alloc();
    Step step{.taken = in.size() - stream_.avail_in,
              .written = out.size() - stream_.avail_out,
              .ended = code == Z_STREAM_END};
    if (code != Z_OK && code != Z_BUF_ERROR && code != Z_STREAM_END)
      step.fault = stream_.msg == nullptr ? "invalid data" : stream_.msg;
    return step;
  }

 private:
  z_stream stream_{};
};

class XzDecompressor final : public Decompressor {
 public:
  XzDecompressor() {
    if (lzma_stream_decoder(&stream_, kMaxMemory, 0) != LZMA_OK) throw std::bad_alloc();
  }
  ~XzDecompressor() override { lzma_end(&stream_); }

  Step step(std::span<const unsigned char> in, std::span<char> out) override {
    stream_.next_in = in.data();
    stream_.avail_in = in.size();
    stream_.next_out = reinterpret_cast<unsigned char*>(out.data());
    stream_.avail_out = out.size();
    const lzma_ret code = lzma_code(&stream_, LZMA_RUN);
    if (code == LZMA_MEM_ERROR) throw std::bad_alloc();
    Step step{.taken = in.size() - stream_.avail_in,
              .written = out.size() - stream_.avail_out,
              .ended = code == LZMA_STREAM_END};
    if (code == LZMA_MEMLIMIT_ERROR) {
      step.fault = kTooMuchMemory;
    } else if (code != LZMA_OK && code != LZMA_BUF_ERROR && code != LZMA_STREAM_END) {
      step.fault = code == LZMA_OPTIONS_ERROR ? "it uses filters that are not supported" : "invalid data";
    }
    return step;
  }

 private:
  lzma_stream stream_ = LZMA_STREAM_INIT;
};

class ZstdDecompressor final : public Decompressor {
 public:
  ZstdDecompressor() : context_(ZSTD_createDCtx()) {
    if (context_ == nullptr) throw std::bad_alloc();
    ZSTD_DCtx_setParameter(context_, ZSTD_d_windowLogMax, kLargestZstdWindow);
  }
  ~ZstdDecompressor() override { ZSTD_freeDCtx(context_); }

  Step step(std::span<const unsigned char> in, std::span<char> out) override {
    ZSTD_inBuffer from{in.data(), in.size(), 0};
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    const size_t code = ZSTD_decompressStream(context_, &to, &from);
    Step step{.taken = from.pos, .written = to.pos, .ended = code == 0};
    if (ZSTD_isError(code) == 0) return step;
    if (ZSTD_getErrorCode(code) == ZSTD_error_memory_allocation) throw std::bad_alloc();
    step.fault = ZSTD_getErrorCode(code) == ZSTD_error_frameParameter_windowTooLarge
                     ? kTooMuchMemory
                     : ZSTD_getErrorName(code);
    return step;
  }

 private:
  ZSTD_DCtx* context_;
};

template <typename T>
std::unique_ptr<Decompressor> make() {
  return std::make_unique<T>();
}

/// zstd also begins with a frame without text, as parallel writers do: the first byte of its magic may be
/// 0x50 to 0x5f.
constexpr std::array<Compression, 4> kCompressions = {
    {{"gzip", "\x1f\x8b", make<GzipDecompressor>},
     {"xz", {"\xfd\x37zXZ\0", kLongestMagic}, make<XzDecompressor>},
     {"zstd", "\x28\xb5\x2f\xfd", make<ZstdDecompressor>},
     {"zstd", "\x50\x2a\x4d\x18", make<ZstdDecompressor>}}};

constexpr size_t kInputBytes = size_t{1} << 17;

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
    for (const Compression& form : kCompressions) {
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

namespace {

constexpr size_t kReadBytes = size_t{1} << 18;

}  // namespace

struct TextReader::Impl {
  ByteSource source;
  int64_t line_number = 0;
  bool had_mark = false;
  std::vector<char> buffer = std::vector<char>(kReadBytes);
  size_t begin = 0;
  size_t end = 0;

  explicit Impl(const std::string& path) : source(path) {}

  /// Reads more; false at the end of the text.
  bool fill() {
    begin = 0;
    end = source.read(buffer, line_number);
    return end > 0;
  }
};

TextReader::TextReader(const std::string& path) : impl_(std::make_unique<Impl>(path)) {}
TextReader::~TextReader() = default;

bool TextReader::next(std::string& line) {
  const bool is_first = impl_->line_number == 0;
  const bool found = next_with_mark(line);
  if (!is_first || !line.starts_with(kByteOrderMark)) return found;
  impl_->had_mark = true;
  line.erase(0, kByteOrderMark.size());
  return found;
}

bool TextReader::next_with_mark(std::string& line) {
  Impl& in = *impl_;
  line.clear();
  bool started = false;
  for (;;) {
    if (in.begin == in.end && !in.fill()) {
      if (in.line_number == 0 && line == kByteOrderMark) started = false;  // a text of nothing else
      in.line_number += started ? 1 : 0;
      return started;
    }
    started = true;
    const char* const from = in.buffer.data() + in.begin;
    const size_t left = in.end - in.begin;
    const auto* const line_end = static_cast<const char*>(std::memchr(from, '\n', left));
    const size_t bytes = line_end == nullptr ? left : static_cast<size_t>(line_end - from);
    if (line.size() + bytes > kMaxLineBytes) {
      fail(ErrorKind::kBadData, "{}:{}: the line is longer than {} bytes; expected one sentence per line",
           in.source.path(), in.line_number + 1, kMaxLineBytes);
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
bool TextReader::had_mark() const {
  return impl_->had_mark;
}
const std::string& TextReader::path() const {
  return impl_->source.path();
}
int64_t TextReader::bytes_read() const {
  return impl_->source.bytes_read();
}

int64_t find_invalid_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    if (i + 8 <= text.size()) {
      uint64_t eight;
      std::memcpy(&eight, text.data() + i, 8);
      if ((eight & 0x8080808080808080ull) == 0) {
        i += 8;
        continue;
      }
    }
    char32_t c = 0;
    const size_t length = unicode::decode_one(text, i, c);
    if (length == 0) return static_cast<int64_t>(i);
    i += length;
  }
  return -1;
}

}  // namespace ventris::data
