// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/scores/chrf.h"
#include "data/scores/score_text.h"

namespace ventris::data {

/// Translation edit rate (Snover et al. 2006) as sacreBLEU 2.6.0 computes it.
struct TerOptions {
  bool normalized = false;     // tokenizes punctuation, replaces XML entities
  bool no_punct = false;       // removes punctuation
  bool asian_support = false;  // both of the above also for Chinese and Japanese characters
  bool case_sensitive = false;
};

/// The words of a line as TER compares them, separated by one space.
std::string ter_tokenize(std::string_view line, const TerOptions& options);

/// Counts edits of many sentences, with reused memory.
class TerCounter {
 public:
  explicit TerCounter(const TerOptions& options) : options_(options) {}
  /// The minimum of the edits over the references, and the mean reference length. Throws DataError kBadData
  /// without references.
  std::vector<double> count(std::string_view hypothesis, std::span<const std::string_view> references);

 private:
  void number(std::string_view line, std::string& text, std::vector<int32_t>& words);

  TerOptions options_;
  std::vector<std::string> texts_;
  std::vector<std::string_view> pieces_;
  std::vector<int32_t> proposed_;
  std::vector<int32_t> reference_;
  WordNumbers numbers_;
};

/// Score of sums of TerCounter's rows: percent of the reference length.
double ter_of_statistics(std::span<const double> statistics);
ResampleScore ter_of_statistics(std::span<const float> statistics);

/// "nrefs:1|case:lc|tok:tercom|norm:no|punct:yes|asian:no|version:..."; `trials` as for bleu_signature().
std::string ter_signature(const TerOptions& options, int references, const std::string& trials = {});

}  // namespace ventris::data
