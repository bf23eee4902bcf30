// SPDX-License-Identifier: Apache-2.0
#include "data/text/unicode.h"

#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>
#include <unicode/utf8.h>

#include <algorithm>

namespace ventris::data::unicode {
namespace {

constexpr char32_t kByteBase = 0xDC00;
/// The letters whose lower case is no other single letter: I with a dot, and sigma, by its place in a word.
constexpr std::u32string_view kContextLetters = U"\u0130\u03A3";

UChar32 point(char32_t c) {
  return static_cast<UChar32>(c);
}
bool is_in(char32_t c, uint32_t categories) {
  return (U_GET_GC_MASK(point(c)) & categories) != 0;
}

void append_utf8(std::string& bytes, char32_t c) {
  if (c > kByteBase && c <= kByteBase + 0xFF) {
    bytes.push_back(static_cast<char>(c - kByteBase));
    return;
  }
  char sequence[U8_MAX_LENGTH];
  int32_t size = 0;
  U8_APPEND_UNSAFE(sequence, size, c);
  bytes.append(sequence, static_cast<size_t>(size));
}

}  // namespace

size_t decode_one(std::string_view text, size_t at, char32_t& c) {
  const char* const bytes = text.data() + at;
  const auto size = static_cast<int32_t>(std::min<size_t>(text.size() - at, U8_MAX_LENGTH));
  int32_t length = 0;
  UChar32 found = 0;
  U8_NEXT(bytes, length, size, found);
  c = static_cast<char32_t>(found);
  return found < 0 ? 0 : static_cast<size_t>(length);
}

std::u32string decode(std::string_view text) {
  std::u32string points;
  points.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    char32_t c = 0;
    const size_t length = decode_one(text, at, c);
    points.push_back(length > 0 ? c : kByteBase + static_cast<unsigned char>(text[at]));
    at += std::max<size_t>(length, 1);
  }
  return points;
}

std::string encode(std::u32string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (const char32_t c : text) append_utf8(bytes, c);
  return bytes;
}

bool is_space(char32_t c) {
  return u_isUWhiteSpace(point(c)) != 0 || (c >= 0x1C && c <= 0x1F);
}
bool is_punctuation(char32_t c) {
  return is_in(c, U_GC_P_MASK);
}
bool is_symbol(char32_t c) {
  return is_in(c, U_GC_S_MASK);
}
bool is_number(char32_t c) {
  return is_in(c, U_GC_N_MASK);
}
bool is_decimal_digit(char32_t c) {
  return is_in(c, U_GC_ND_MASK);
}
bool is_alphabetic(char32_t c) {
  return u_isUAlphabetic(point(c)) != 0;
}
bool is_lowercase(char32_t c) {
  return u_isULowercase(point(c)) != 0;
}
bool is_han(char32_t c) {
  return (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0xF900 && c <= 0xFAD9) ||
         (c >= 0x20000 && c <= 0x323AF);
}

std::u32string lower(std::u32string_view text) {
  if (text.find_first_of(kContextLetters) == std::u32string_view::npos) {
    std::u32string result(text);
    for (char32_t& c : result) c = static_cast<char32_t>(u_tolower(point(c)));
    return result;
  }
  icu::UnicodeString units;
  for (const char32_t c : text) units.append(point(c));
  units.toLower(icu::Locale::getRoot());
  std::u32string result;
  for (int32_t at = 0; at < units.length(); at = units.moveIndex32(at, 1))
    result.push_back(static_cast<char32_t>(units.char32At(at)));
  return result;
}

}  // namespace ventris::data::unicode
