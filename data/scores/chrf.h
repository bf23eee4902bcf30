// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/scores/ngram_matches.h"

namespace ventris::data {

/// chrF (Popović 2015), and chrF++ (Popović 2017) with word_order 2, as sacreBLEU 2.6.0 computes them.
struct ChrfOptions {
  int char_order = 6;       // 1 to kMaxChrfOrder
  int word_order = 0;       // 0 to kMaxChrfOrder
  int beta = 2;             // weight of recall over precision
  bool whitespace = false;  // character n-grams may hold white space
  bool lowercase = false;
  bool eps_smoothing = false;  // orders without n-grams have a small weight instead of none
};

inline constexpr int kMaxChrfOrder = 20;

/// Counts n-grams of many sentences, with reused memory.
class ChrfCounter {
 public:
  explicit ChrfCounter(const ChrfOptions& options) : options_(options) {}

  /// For each character order, then each word order: n-grams of the hypothesis (0 if the reference has none
  /// of that order), of the reference, and of both; against the reference with the best score. Requires a
  /// reference.
  std::vector<double> count(std::string_view hypothesis, std::span<const std::string_view> references);

 private:
  struct Sentence {
    std::u32string text;
    std::vector<int32_t> characters;
    std::vector<int32_t> words;
  };
  const Sentence& cut(std::string_view line);

  ChrfOptions options_;
  std::deque<Sentence> sentences_;  // the hypothesis and each reference, for the views of numbers_
  WordNumbers numbers_;
  NgramMatches character_matches_;
  NgramMatches word_matches_;
};

/// Score of sums of ChrfCounter's rows, 0 to 100.
double chrf_of_statistics(std::span<const double> statistics, const ChrfOptions& options);

/// A score computed in single precision from sums in single precision, as sacreBLEU does for resamples.
/// `single` is false if its arithmetic ends in double precision; the value is exact in both cases.
struct ResampleScore {
  double value = 0.0;
  bool single = false;
};
ResampleScore chrf_of_statistics(std::span<const float> statistics, const ChrfOptions& options);

/// "chrF2", "chrF2++"
std::string chrf_name(const ChrfOptions& options);
/// "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:..."; `trials` as for bleu_signature().
std::string chrf_signature(const ChrfOptions& options, int references, const std::string& trials = {});

}  // namespace ventris::data
