// SPDX-License-Identifier: Apache-2.0
#include "data/demo_corpus/numbers.h"

#include <array>

#include "data/error.h"

namespace ventris::data {
namespace {

constexpr int64_t kLargest = 999999999;
constexpr int64_t kMillion = 1000000;

constexpr std::array<const char*, 20> kEnglishSmall = {
    "zero",     "one",     "two",     "three",     "four",     "five",    "six",
    "seven",    "eight",   "nine",    "ten",       "eleven",   "twelve",  "thirteen",
    "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
constexpr std::array<const char*, 10> kEnglishTens = {"",      "",      "twenty",  "thirty", "forty",
                                                      "fifty", "sixty", "seventy", "eighty", "ninety"};
constexpr std::array<const char*, 20> kEnglishSmallOrdinal = {
    "zeroth",     "first",     "second",    "third",       "fourth",     "fifth",     "sixth",
    "seventh",    "eighth",    "ninth",     "tenth",       "eleventh",   "twelfth",   "thirteenth",
    "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth"};
constexpr std::array<const char*, 20> kGermanSmall = {
    "null",     "ein",      "zwei",     "drei",     "vier",     "fünf",    "sechs",
    "sieben",   "acht",     "neun",     "zehn",     "elf",      "zwölf",   "dreizehn",
    "vierzehn", "fünfzehn", "sechzehn", "siebzehn", "achtzehn", "neunzehn"};
constexpr std::array<const char*, 10> kGermanTens = {"",        "",        "zwanzig", "dreißig", "vierzig",
                                                     "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig"};
constexpr std::array<const char*, 20> kGermanSmallOrdinal = {
    "nullt",     "erst",      "zweit",     "dritt",     "viert",     "fünft",    "sechst",
    "siebt",     "acht",      "neunt",     "zehnt",     "elft",      "zwölft",   "dreizehnt",
    "vierzehnt", "fünfzehnt", "sechzehnt", "siebzehnt", "achtzehnt", "neunzehnt"};

void check_range(int64_t n) {
  if (n < 0 || n > kLargest) {
    fail(ErrorKind::kUsage, "number words are known for 0 to 999999999, not for {}", n);
  }
}

/// 1 to 99; `ordinal` changes the last word.
std::string english_below_hundred(int64_t n, bool ordinal) {
  if (n < 20) return ordinal ? kEnglishSmallOrdinal[n] : kEnglishSmall[n];
  const std::string tens = kEnglishTens[n / 10];
  if (n % 10 != 0) return tens + "-" + (ordinal ? kEnglishSmallOrdinal[n % 10] : kEnglishSmall[n % 10]);
  return ordinal ? tens.substr(0, tens.size() - 1) + "ieth" : tens;
}

/// 1 to 999 as a cardinal.
std::string english_below_thousand(int64_t n) {
  std::string text;
  if (n >= 100) text = std::string(kEnglishSmall[n / 100]) + " hundred";
  if (n % 100 != 0) text += (text.empty() ? "" : " and ") + english_below_hundred(n % 100, false);
  return text;
}

/// The scales of n and its last group, which takes the ending of an ordinal.
std::string english_words(int64_t n, bool ordinal) {
  if (n == 0) return ordinal ? kEnglishSmallOrdinal[0] : kEnglishSmall[0];
  std::string text;
  const auto append = [&](const std::string& part, const char* joint) {
    text += (text.empty() ? "" : joint) + part;
  };
  if (n >= kMillion) append(english_below_thousand(n / kMillion) + " million", " ");
  if (n % kMillion >= 1000) append(english_below_thousand(n % kMillion / 1000) + " thousand", " ");
  if (n % 1000 >= 100) append(std::string(kEnglishSmall[n % 1000 / 100]) + " hundred", " ");
  if (n % 100 != 0) {
    append(english_below_hundred(n % 100, ordinal), " and ");
  } else if (ordinal) {
    text += "th";
  }
  return text;
}

/// 1 to 999 with `one` for a final 1: "eins" at the end of a number, "ein" before "tausend", "eine" before
/// "Million".
std::string german_below_thousand(int64_t n, const char* one) {
  std::string text;
  if (n >= 100) text = std::string(kGermanSmall[n / 100]) + "hundert";
  const int64_t rest = n % 100;
  if (rest == 1) return text + one;
  if (rest == 0) return text;
  if (rest < 20) return text + kGermanSmall[rest];
  if (rest % 10 != 0) text += std::string(kGermanSmall[rest % 10]) + "und";
  return text + kGermanTens[rest / 10];
}

/// 1 to 999,999 as one word.
std::string german_below_million(int64_t n) {
  std::string text;
  if (n >= 1000) text = german_below_thousand(n / 1000, "ein") + "tausend";
  return n % 1000 == 0 ? text : text + german_below_thousand(n % 1000, "eins");
}

}  // namespace

std::string english_cardinal(int64_t n) {
  check_range(n);
  return english_words(n, false);
}

std::string english_ordinal(int64_t n) {
  check_range(n);
  return english_words(n, true);
}

std::string german_cardinal(int64_t n) {
  check_range(n);
  if (n == 0) return kGermanSmall[0];
  std::string text;
  const int64_t millions = n / kMillion;
  if (millions > 0)
    text = german_below_thousand(millions, "eine") + (millions == 1 ? " Million" : " Millionen");
  if (n % kMillion == 0) return text;
  return text + (text.empty() ? "" : " ") + german_below_million(n % kMillion);
}

std::string german_ordinal(int64_t n) {
  check_range(n);
  if (n < 20) return kGermanSmallOrdinal[n];
  std::string text;
  if (n >= kMillion) text = german_below_thousand(n / kMillion, "ein") + "million";
  const int64_t rest = n % 100;
  const int64_t above = n % kMillion - rest;
  if (rest == 0 || rest >= 20) {
    const int64_t low = n % kMillion;
    return text + (low == 0 ? "" : german_below_million(low)) + "st";
  }
  return text + (above == 0 ? "" : german_below_million(above)) + kGermanSmallOrdinal[rest];
}

}  // namespace ventris::data
