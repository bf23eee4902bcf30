// SPDX-License-Identifier: Apache-2.0
#include "data/demo_corpus/phrases.h"

#include <array>

namespace ventris::data::demo {
namespace {

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

constexpr std::array<const char*, 12> kEnglishMonths = {"January",   "February", "March",    "April",
                                                        "May",       "June",     "July",     "August",
                                                        "September", "October",  "November", "December"};
constexpr std::array<const char*, 12> kGermanMonths = {"Januar",    "Februar", "März",     "April",
                                                       "Mai",       "Juni",    "Juli",     "August",
                                                       "September", "Oktober", "November", "Dezember"};
constexpr std::array<int, 12> kDays = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
const std::vector<DemoPair> kWeekdays = {
    {"Monday", "Montag"},  {"Tuesday", "Dienstag"}, {"Wednesday", "Mittwoch"}, {"Thursday", "Donnerstag"},
    {"Friday", "Freitag"}, {"Saturday", "Samstag"}, {"Sunday", "Sonntag"}};

/// Day and month, with the German ending of the ordinal.
DemoPair day_of_month(Random& random, const char* ending) {
  const auto month = static_cast<size_t>(random.below(12));
  const int64_t day = 1 + random.below(kDays[month]);
  DemoPair date{"the " + english_ordinal(day) + " of " + kEnglishMonths[month],
                german_ordinal(day) + ending + " " + kGermanMonths[month]};
  if (random.chance(45)) {
    const DemoPair in_year = year(random.chance(70) ? 1900 + random.below(130) : 1100 + random.below(1000));
    date.english += " " + in_year.english;
    date.german += " " + in_year.german;
  }
  return date;
}

/// A number before a noun: "ein" for one.
std::string german_before_noun(int64_t n, const char* one) {
  return n == 1 ? one : german_cardinal(n);
}

}  // namespace

std::string english_cardinal(int64_t n) {
  return english_words(n, false);
}
std::string english_ordinal(int64_t n) {
  return english_words(n, true);
}

std::string german_cardinal(int64_t n) {
  if (n == 0) return kGermanSmall[0];
  std::string text;
  const int64_t millions = n / kMillion;
  if (millions > 0)
    text = german_below_thousand(millions, "eine") + (millions == 1 ? " Million" : " Millionen");
  if (n % kMillion == 0) return text;
  return text + (text.empty() ? "" : " ") + german_below_million(n % kMillion);
}

std::string german_ordinal(int64_t n) {
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

int64_t random_number(Random& random, int digits) {
  int64_t low = 1;
  const int64_t length = 1 + random.below(digits);
  for (int64_t i = 1; i < length; ++i) low *= 10;
  const int64_t n = low + random.below(9 * low);
  if (length < 3 || !random.chance(35)) return n;
  int64_t unit = 10;
  for (int64_t zeros = 1 + random.below(length - 1); zeros > 1; --zeros) unit *= 10;
  return n / unit * unit;
}

int64_t random_count(Random& random, int digits) {
  const int64_t n = random_number(random, digits);
  return n % 100 == 1 ? n + 1 + random.below(8) : n;
}

DemoPair year(int64_t year) {
  const int64_t century = year / 100;
  const int64_t rest = year % 100;
  if (century == 20 && rest < 10) return {english_cardinal(year), german_cardinal(year)};
  DemoPair result{english_cardinal(century) + " ",
                  century < 20 ? german_cardinal(century) + "hundert" : "zweitausend"};
  if (rest == 0) {
    result.english += "hundred";
    return result;
  }
  result.english += (rest < 10 ? "oh " : "") + english_cardinal(rest);
  result.german += german_cardinal(rest);
  return result;
}

DemoPair clock_time(int hour, int minute) {
  const int next_hour = hour % 12 + 1;
  const std::string english_hour = english_cardinal(hour);
  const std::string english_next = english_cardinal(next_hour);
  const std::string clock = (hour == 1 ? std::string("ein") : german_cardinal(hour)) + " Uhr";
  if (minute == 0) return {english_hour + " o'clock", clock};
  if (minute == 15) return {"quarter past " + english_hour, "Viertel nach " + german_cardinal(hour)};
  if (minute == 30) return {"half past " + english_hour, "halb " + german_cardinal(next_hour)};
  if (minute == 45) return {"quarter to " + english_next, "Viertel vor " + german_cardinal(next_hour)};
  if (minute == 5 || minute == 10 || minute == 20) {
    return {english_cardinal(minute) + " past " + english_hour,
            german_cardinal(minute) + " nach " + german_cardinal(hour)};
  }
  if (minute == 40 || minute == 50 || minute == 55) {
    return {english_cardinal(60 - minute) + " to " + english_next,
            german_cardinal(60 - minute) + " vor " + german_cardinal(next_hour)};
  }
  return {english_hour + (minute < 10 ? " oh " : " ") + english_cardinal(minute),
          clock + " " + german_cardinal(minute)};
}

DemoPair price(int64_t whole, int cents, bool dollars) {
  DemoPair result;
  if (whole > 0) {
    result.english = english_cardinal(whole) + (dollars ? " dollar" : " euro") + (whole == 1 ? "" : "s");
    result.german = german_before_noun(whole, "einen") + (dollars ? " Dollar" : " Euro");
  }
  if (cents > 0) {
    if (whole > 0) {
      result.english += " and ";
      result.german += " und ";
    }
    result.english += english_cardinal(cents) + (cents == 1 ? " cent" : " cents");
    result.german += german_before_noun(cents, "einen") + " Cent";
  }
  return result;
}

DemoPair date_on(Random& random) {
  const DemoPair day = day_of_month(random, "en");
  return {"on " + day.english, "am " + day.german};
}

DemoPair date_nominative(Random& random) {
  const DemoPair weekday = random.pick(kWeekdays);
  const DemoPair day = day_of_month(random, "e");
  return {weekday.english + ", " + day.english, weekday.german + ", der " + day.german};
}

DemoPair random_time(Random& random) {
  const int hour = static_cast<int>(1 + random.below(12));
  const bool in_fives = random.chance(70);
  return clock_time(hour, static_cast<int>(in_fives ? 5 * random.below(12) : random.below(60)));
}

DemoPair random_price(Random& random) {
  const bool dollars = random.chance(40);
  if (random.chance(10)) return price(0, static_cast<int>(1 + random.below(99)), dollars);
  const int64_t whole = random.chance(5) ? 1 : random_count(random, 4);
  return price(whole, random.chance(50) ? static_cast<int>(1 + random.below(99)) : 0, dollars);
}

}  // namespace ventris::data::demo
