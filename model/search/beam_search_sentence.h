// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/search/beam_search.h"

namespace ventris {

/// The beam of one sentence: its live hypotheses and the finished ones. Independent of the model.
class BeamSearchSentence {
 public:
  /// A continuation of a live hypothesis.
  struct Candidate {
    int hypothesis;
    int32_t token;
    double log_probability;  // of all tokens after the prefix
    uint32_t stream = 0;     // random numbers of a sampled output
  };

  /// At most `max_tokens` tokens, without the marks; at least those of the prefix. Both references must
  /// outlive the object.
  BeamSearchSentence(const BeamSearchOptions& options, std::span<const int32_t> prefix, int max_tokens);

  int live() const { return static_cast<int>(live_.size()); }
  bool done() const { return live_.empty(); }
  /// All live hypotheses have the maximum number of tokens: only the end mark may follow.
  bool full() const { return tokens_ == max_tokens_; }
  /// The next token is one of the prefix: it is not chosen, so its probability does not count.
  bool in_prefix() const { return tokens_ < static_cast<int>(prefix_.size()); }
  /// The only token that may follow: that of the prefix, or the end mark if full(); otherwise -1.
  int32_t forced_token() const;
  /// Only the prefix is present, so that all sampled outputs have the same start.
  bool at_first_free_token() const { return tokens_ == static_cast<int>(prefix_.size()); }
  /// The last token of a live hypothesis, initially the begin mark.
  int32_t last_token(int hypothesis) const;
  std::span<const int32_t> tokens(int hypothesis) const {
    return live_[static_cast<size_t>(hypothesis)].tokens;
  }
  double log_probability(int hypothesis) const {
    return live_[static_cast<size_t>(hypothesis)].log_probability;
  }
  uint32_t stream(int hypothesis) const { return live_[static_cast<size_t>(hypothesis)].stream; }

  /// Keeps the beam_size best of `candidates`, which contain at least the beam_size best of all
  /// continuations, ordered by hypothesis. Those that end are finished; the others stay live. Returns, for
  /// each live hypothesis, the one that it continues. Ends the search when no live hypothesis can change the
  /// n_best result. `step`, if not null, is told of it.
  std::vector<int> advance(std::vector<Candidate> candidates, SearchStep* step = nullptr);

  /// The n_best finished hypotheses, best first.
  std::vector<Hypothesis> result() const;

 private:
  struct Live {
    std::vector<int32_t> tokens;
    double log_probability = 0.0;
    uint32_t stream = 0;
  };
  /// The score of a hypothesis of `tokens` tokens, by those after the prefix.
  double score(double log_probability, int tokens) const {
    return search_score(options_, log_probability, tokens - static_cast<int>(prefix_.size()));
  }
  bool can_improve() const;

  const BeamSearchOptions& options_;
  std::span<const int32_t> prefix_;
  int max_tokens_;
  int tokens_ = 0;
  std::vector<Live> live_;
  std::vector<Hypothesis> finished_;  // best first, at most n_best
};

}  // namespace ventris
