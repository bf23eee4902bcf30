// SPDX-License-Identifier: Apache-2.0
#include "data/demo_corpus/phrases.h"

#include <array>

#include "data/demo_corpus/numbers.h"

namespace ventris::data::demo {
namespace {

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

uint64_t Random::next() {
  uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
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
