// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launch/search_record.h"

namespace ventris {

/// The contents of a page that shows a beam search.
struct SearchPage {
  std::string model;  // name of the file
  std::string source;
  std::string translation;
  double score = 0;                                // of the translation
  std::string reference;                           // "" if there is none
  std::vector<double> reference_tokens = {};       // log-probability of each token and the end mark
  std::vector<std::string> reference_pieces = {};  // the tokens themselves
  double reference_score = 0;
  int beam_size = 0;
  float length_penalty = 0;
  std::vector<std::string> source_tokens = {};        // with the end mark
  std::vector<std::vector<std::string>> pieces = {};  // of the nodes of each step
  SearchRecord record;
};

/// The number of hypotheses, the best, that the page shows of those that fell out at a step; it always has
/// those that were kept and the reference.
inline constexpr size_t kShownFallen = 100;

/// One self-contained HTML file, without libraries or network access. Text is shown literally, never
/// interpreted as markup.
std::string search_page(const SearchPage& page);

}  // namespace ventris
