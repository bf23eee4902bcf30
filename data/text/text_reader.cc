// SPDX-License-Identifier: Apache-2.0
#include "data/text/text_reader.h"

#include <cstring>
#include <vector>

#include "data/error.h"
#include "data/text/byte_source.h"
#include "data/text/unicode.h"

namespace ventris::data {

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
