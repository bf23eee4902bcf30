// SPDX-License-Identifier: Apache-2.0
#include "trainer/terminal_text.h"

#include <algorithm>
#include <clocale>
#include <cstdlib>
#include <cstring>
#include <cwchar>

#include "data/text/unicode.h"
#include "trainer/text.h"

namespace ventris {
namespace {

constexpr char32_t kFirstBraille = 0x2800;
constexpr char32_t kLastBraille = 0x28FF;

/// The widths of the C library, which terminals go by, without a change of the locale of the program; null if
/// it lacks that locale.
locale_t utf8_locale() {
  static const locale_t locale = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  return locale;
}

size_t cells_of_point(char32_t c) {
  if (c < 0x80 || (c >= kFirstBraille && c <= kLastBraille) || utf8_locale() == nullptr) return 1;
  const locale_t before = ::uselocale(utf8_locale());
  const int cells = ::wcwidth(static_cast<wchar_t>(c));
  ::uselocale(before);
  return cells < 0 ? 1 : static_cast<size_t>(cells);  // what is no character is shown as a replacement
}

/// A piece of text that is not divided.
struct Piece {
  size_t bytes;
  size_t cells;
};

Piece piece_at(std::string_view text, size_t at) {
  if (text.substr(at, 2) == "\033[") {
    const size_t end = text.find('m', at);
    return {.bytes = (end == std::string_view::npos ? text.size() : end + 1) - at, .cells = 0};
  }
  char32_t c = 0;
  const size_t bytes = data::unicode::decode_one(text, at, c);
  return bytes == 0 ? Piece{.bytes = 1, .cells = 1} : Piece{.bytes = bytes, .cells = cells_of_point(c)};
}

}  // namespace

Charset message_charset() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string_view(value == nullptr ? "" : value);
  };
  if (variable("TERM") == "linux" || utf8_locale() == nullptr) return Charset::kAscii;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string locale(variable(name));
    if (locale.empty()) continue;
    const bool is_utf8 =
        ::strcasestr(locale.c_str(), "utf-8") != nullptr || ::strcasestr(locale.c_str(), "utf8") != nullptr;
    return is_utf8 ? Charset::kUtf8 : Charset::kAscii;
  }
  return Charset::kAscii;
}

size_t cells_of(std::string_view text) {
  size_t cells = 0;
  for (size_t at = 0; at < text.size();) {
    const Piece piece = piece_at(text, at);
    cells += piece.cells;
    at += piece.bytes;
  }
  return cells;
}

std::string cut_to_cells(const std::string& text, size_t cells) {
  size_t used = 0;
  for (size_t at = 0; at < text.size();) {
    const Piece piece = piece_at(text, at);
    used += piece.cells;
    if (used > cells) {
      const std::string begin = text.substr(0, at);
      return begin.find('\033') == std::string::npos ? begin : begin + "\033[0m";
    }
    at += piece.bytes;
  }
  return text;
}

size_t rows_of(std::string_view text, size_t columns) {
  size_t rows = 1;
  size_t column = 0;
  for (size_t at = 0; at < text.size();) {
    const Piece piece = piece_at(text, at);
    if (column + piece.cells > columns) {
      ++rows;
      column = 0;
    }
    column += piece.cells;
    at += piece.bytes;
  }
  return rows;
}

std::string in_charset(std::string_view text, Charset charset) {
  const std::string clean = readable(text);
  if (charset == Charset::kUtf8) return clean;
  std::u32string points = data::unicode::decode(clean);
  std::ranges::replace_if(
      points, [](char32_t c) { return c >= 0x7F; }, U'?');
  return data::unicode::encode(points);
}

}  // namespace ventris
