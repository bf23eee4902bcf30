// SPDX-License-Identifier: Apache-2.0
#include "data/text/unicode.h"

#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include <algorithm>

namespace ventris::data::unicode {
namespace {

constexpr char32_t kCapitalSigma = 0x3A3;
constexpr char32_t kSmallSigma = 0x3C3;
constexpr char32_t kFinalSigma = 0x3C2;
constexpr char32_t kCapitalIWithDot = 0x130;
constexpr char32_t kCombiningDotAbove = 0x307;
constexpr char32_t kByteBase = 0xDC00;

UChar32 point(char32_t c) {
  return static_cast<UChar32>(c);
}
bool is_in(char32_t c, uint32_t categories) {
  return (U_GET_GC_MASK(point(c)) & categories) != 0;
}
bool is_cased(char32_t c) {
  return u_hasBinaryProperty(point(c), UCHAR_CASED) != 0;
}
bool is_case_ignorable(char32_t c) {
  return u_hasBinaryProperty(point(c), UCHAR_CASE_IGNORABLE) != 0;
}

char32_t simple_lower(char32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
  return static_cast<char32_t>(u_tolower(point(c)));
}

/// Unicode's Final_Sigma: a cased character before it and none after it, case-ignorable ones skipped.
bool sigma_is_final(std::u32string_view text, size_t at) {
  size_t before = at;
  while (before > 0 && is_case_ignorable(text[before - 1])) --before;
  if (before == 0 || !is_cased(text[before - 1])) return false;
  size_t after = at + 1;
  while (after < text.size() && is_case_ignorable(text[after])) ++after;
  return after == text.size() || !is_cased(text[after]);
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
  std::u32string result;
  result.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const char32_t c = text[i];
    if (c == kCapitalSigma) {
      result.push_back(sigma_is_final(text, i) ? kFinalSigma : kSmallSigma);
    } else if (c == kCapitalIWithDot) {
      result.append({U'i', kCombiningDotAbove});
    } else {
      result.push_back(simple_lower(c));
    }
  }
  return result;
}

std::string lower_utf8(std::string_view text) {
  if (std::none_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x80; })) {
    std::string bytes(text);
    for (char& c : bytes) c = static_cast<char>(simple_lower(static_cast<unsigned char>(c)));
    return bytes;
  }
  return encode(lower(decode(text)));
}

}  // namespace ventris::data::unicode
