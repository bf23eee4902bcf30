// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/demo_corpus/demo_corpus.h"

// Private to data/: the numbers and phrases of the demo corpus.

namespace ventris::data::demo {

/// SplitMix64 (Steele et al. 2014): the same numbers with every compiler and library.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  /// In [0, bound).
  int64_t below(int64_t bound) {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return static_cast<int64_t>((z ^ (z >> 31)) % static_cast<uint64_t>(bound));
  }
  bool chance(int64_t in_hundred) { return below(100) < in_hundred; }
  template <typename T>
  const T& pick(const std::vector<T>& from) {
    return from[static_cast<size_t>(below(static_cast<int64_t>(from.size())))];
  }

 private:
  uint64_t state_;
};

/// Number words, 0 to 999,999,999.
std::string english_cardinal(int64_t n);
std::string german_cardinal(int64_t n);
std::string english_ordinal(int64_t n);
std::string german_ordinal(int64_t n);  // without ending, e.g. "einundzwanzigst"

/// A number of 1 to `digits` digits, each length equally likely; about a third are round.
int64_t random_number(Random& random, int digits);

/// As random_number, for counting a noun: at least 2, and not 101, 201, ..., for which German has two usual
/// forms.
int64_t random_count(Random& random, int digits);

/// Phrases, each with its one translation; the first letter is as inside a sentence.
DemoPair year(int64_t year);  // "nineteen eighty-seven" | "neunzehnhundertsiebenundachtzig"; 1100 to 2099
DemoPair clock_time(int hour, int minute);               // hour 1 to 12: "half past seven" | "halb acht"
DemoPair price(int64_t whole, int cents, bool dollars);  // accusative; whole or cents may be 0, not both
DemoPair date_on(Random& random);  // "on the third of May" | "am dritten Mai", maybe with a year
DemoPair date_nominative(
    Random& random);  // "Monday, the third of May" | "Montag, der dritte Mai", maybe with a year
DemoPair random_time(Random& random);
DemoPair random_price(Random& random);

}  // namespace ventris::data::demo
