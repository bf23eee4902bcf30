// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/attention_maps.h"
#include "model/search/beam_search.h"

namespace ventris {

/// A continuation that a search considered.
struct SearchNode {
  int parent = -1;             // its number in the step before; -1 in the first step
  int32_t token = 0;           // the end mark if it ends
  double log_probability = 0;  // of the whole
  double score = 0;            // with the length penalty, as if it ended here
  bool kept = false;
  bool ended = false;      // kept, and a finished hypothesis
  bool winner = false;     // on the way to the translation
  bool reference = false;  // a begin of the reference
  int attention = -1;  // its row in SearchRecord::attention, if kept: where the decoder looked for the token
};

/// What a beam search did with one sentence.
struct SearchRecord {
  std::vector<std::vector<SearchNode>> steps;              // of each all that were considered, best first
  std::vector<std::vector<std::vector<float>>> attention;  // [layer][row][source tokens and end mark]
};

/// Collects the steps of the search of one sentence.
class SearchRecorder {
 public:
  explicit SearchRecorder(const BeamSearchOptions& options) : options_(options) {}
  void add(const SearchStep& step);
  /// The record, with the paths of the translation and of a reference ("" if there is none), as tokens
  /// without marks, and with the attention of what was kept: the mean over the heads of each layer, computed
  /// once more for the kept hypotheses.
  SearchRecord take(const std::vector<int32_t>& source, const std::vector<int32_t>& translation,
                    const std::vector<int32_t>* reference, AttentionMapper& mapper, int layers);

 private:
  /// The tokens of a node, with the end mark of one that ends.
  std::vector<int32_t> path(size_t step, int node) const;
  void mark_paths(const std::vector<int32_t>& translation, const std::vector<int32_t>* reference);
  void add_attention(const std::vector<int32_t>& source, AttentionMapper& mapper, int layers);

  const BeamSearchOptions& options_;
  SearchRecord record_;
  std::vector<int> live_;  // numbers in the last step of the hypotheses that go on
};

}  // namespace ventris
