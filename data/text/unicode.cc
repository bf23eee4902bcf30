// SPDX-License-Identifier: Apache-2.0
#include "data/text/unicode.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>

namespace ventris::data::unicode {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};

/// Code points first, first + step, ..., last with lower case at a distance of `difference`.
struct LowerRun {
  char32_t first;
  char32_t last;
  int step;
  int difference;
};

#include "data/text/unicode_tables.inc"

constexpr char32_t kCapitalSigma = 0x3A3;
constexpr char32_t kSmallSigma = 0x3C3;
constexpr char32_t kFinalSigma = 0x3C2;
constexpr char32_t kCapitalIWithDot = 0x130;
constexpr char32_t kCombiningDotAbove = 0x307;
constexpr char32_t kByteBase = 0xDC00;

template <size_t n>
bool contains(const Range (&ranges)[n], char32_t c) {
  const Range* after = std::upper_bound(std::begin(ranges), std::end(ranges), c,
                                        [](char32_t x, const Range& r) { return x < r.first; });
  return after != std::begin(ranges) && c <= std::prev(after)->last;
}

enum Class : unsigned char {
  kIsPunctuation = 1,
  kIsSymbol = 2,
  kIsNumber = 4,
  kIsAlphabetic = 8,
  kIsDecimalDigit = 16,
  kIsLowercase = 32
};

unsigned char classes_of(char32_t c) {
  return static_cast<unsigned char>(
      (contains(kPunctuation, c) ? kIsPunctuation : 0) | (contains(kSymbols, c) ? kIsSymbol : 0) |
      (contains(kNumbers, c) ? kIsNumber : 0) | (contains(kAlphabetic, c) ? kIsAlphabetic : 0) |
      (contains(kDecimalDigits, c) ? kIsDecimalDigit : 0) | (contains(kLowercase, c) ? kIsLowercase : 0));
}

/// Frequent characters have their classes in a table.
bool has_class(char32_t c, Class wanted) {
  constexpr char32_t kTableSize = 0x2100;
  static const std::array<unsigned char, kTableSize> table = [] {
    std::array<unsigned char, kTableSize> classes{};
    for (char32_t point = 0; point < kTableSize; ++point) classes[point] = classes_of(point);
    return classes;
  }();
  return ((c < kTableSize ? table[c] : classes_of(c)) & wanted) != 0;
}

char32_t searched_lower(char32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
  const LowerRun* run = std::upper_bound(std::begin(kLowerRuns), std::end(kLowerRuns), c,
                                         [](char32_t x, const LowerRun& r) { return x < r.first; });
  if (run == std::begin(kLowerRuns)) return c;
  --run;
  if (c > run->last || (c - run->first) % static_cast<char32_t>(run->step) != 0) return c;
  return static_cast<char32_t>(static_cast<int>(c) + run->difference);
}

/// Frequent characters have their lower case in a table.
char32_t simple_lower(char32_t c) {
  static const std::array<char32_t, 0x600> table = [] {
    std::array<char32_t, 0x600> lower{};
    for (char32_t point = 0; point < lower.size(); ++point) lower[point] = searched_lower(point);
    return lower;
  }();
  return c < table.size() ? table[c] : searched_lower(c);
}

/// Unicode's Final_Sigma: a cased character before it and none after it, case-ignorable ones skipped.
bool sigma_is_final(std::u32string_view text, size_t at) {
  size_t before = at;
  while (before > 0 && contains(kCaseIgnorable, text[before - 1])) --before;
  if (before == 0 || !contains(kCased, text[before - 1])) return false;
  size_t after = at + 1;
  while (after < text.size() && contains(kCaseIgnorable, text[after])) ++after;
  return after == text.size() || !contains(kCased, text[after]);
}

}  // namespace

size_t decode_one(std::string_view text, size_t at, char32_t& c) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  const size_t length = lead < 0x80   ? 1
                        : lead < 0xC2 ? 0
                        : lead < 0xE0 ? 2
                        : lead < 0xF0 ? 3
                        : lead < 0xF5 ? 4
                                      : 0;
  if (length == 0 || at + length > text.size()) return 0;
  c = length == 1 ? lead : lead & (0xFFu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return 0;
    c = (c << 6) | (byte(at + i) & 0x3F);
  }
  const bool overlong = (length == 3 && c < 0x800) || (length == 4 && c < 0x10000);
  return overlong || (c >= 0xD800 && c <= 0xDFFF) || c > 0x10FFFF ? 0 : length;
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

namespace {

void append_utf8(std::string& bytes, char32_t c) {
  const auto put = [&](char32_t value) { bytes.push_back(static_cast<char>(value)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | (c >> 6));
    put(0x80 | (c & 0x3F));
  } else if (c > kByteBase && c <= kByteBase + 0xFF) {
    put(c - kByteBase);
  } else if (c < 0x10000) {
    put(0xE0 | (c >> 12));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | (c >> 18));
    put(0x80 | ((c >> 12) & 0x3F));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

}  // namespace

std::string encode(std::u32string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (const char32_t c : text) append_utf8(bytes, c);
  return bytes;
}

bool is_space(char32_t c) {
  if (c < 0x80) return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_punctuation(char32_t c) {
  return has_class(c, kIsPunctuation);
}
bool is_symbol(char32_t c) {
  return has_class(c, kIsSymbol);
}
bool is_number(char32_t c) {
  return has_class(c, kIsNumber);
}
bool is_alphabetic(char32_t c) {
  return has_class(c, kIsAlphabetic);
}
bool is_decimal_digit(char32_t c) {
  return has_class(c, kIsDecimalDigit);
}
bool is_han(char32_t c) {
  return (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0xF900 && c <= 0xFAD9) ||
         (c >= 0x20000 && c <= 0x323AF);
}

bool is_lowercase(char32_t c) {
  return has_class(c, kIsLowercase);
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

char32_t capital(char32_t c) {
  // Of several capitals the first: others are signs, such as those of kelvin and angstrom.
  static const std::map<char32_t, char32_t> capitals = [] {
    constexpr char32_t kCapitalSharpS = 0x1E9E;
    constexpr Range kGeorgian{0x1C90, 0x1CBF};  // for text in capitals alone
    std::map<char32_t, char32_t> map{{kSmallSigma, kCapitalSigma}};
    for (const LowerRun& run : kLowerRuns) {
      for (char32_t point = run.first; point <= run.last; point += static_cast<char32_t>(run.step)) {
        if (point == kCapitalSharpS || (point >= kGeorgian.first && point <= kGeorgian.last)) continue;
        map.emplace(searched_lower(point), point);
      }
    }
    return map;
  }();
  if (c < 0x80) return c >= 'a' && c <= 'z' ? c - 32 : c;
  const auto found = capitals.find(c);
  return found == capitals.end() ? c : found->second;
}

std::string lower_utf8(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size() + 2);
  for (size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte < 0x80) {
      bytes.push_back(static_cast<char>(byte >= 'A' && byte <= 'Z' ? byte + 32 : byte));
      ++at;
      continue;
    }
    char32_t c = 0;
    const size_t length = decode_one(text, at, c);
    if (length == 0) c = kByteBase + byte;
    at += std::max<size_t>(length, 1);
    if (c == kCapitalSigma) return encode(lower(decode(text)));  // depends on its neighbours
    if (c == kCapitalIWithDot) {
      bytes.push_back('i');
      append_utf8(bytes, kCombiningDotAbove);
    } else {
      append_utf8(bytes, simple_lower(c));
    }
  }
  return bytes;
}

}  // namespace ventris::data::unicode
