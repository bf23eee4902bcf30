// SPDX-License-Identifier: Apache-2.0
#include "model/search/beam_search_sentence.h"

#include <algorithm>

namespace ventris {

BeamSearchSentence::BeamSearchSentence(const BeamSearchOptions& options, std::span<const int32_t> prefix,
                                       int max_tokens)
    : options_(options), prefix_(prefix), max_tokens_(max_tokens), live_(1) {}

int32_t BeamSearchSentence::forced_token() const {
  if (full()) return options_.end_id;
  return in_prefix() ? prefix_[static_cast<size_t>(tokens_)] : -1;
}

int32_t BeamSearchSentence::last_token(int hypothesis) const {
  const std::vector<int32_t>& tokens = live_[static_cast<size_t>(hypothesis)].tokens;
  return tokens.empty() ? options_.begin_id : tokens.back();
}

/// Whether a live hypothesis can still enter the result. Its probability cannot increase, but the penalty of
/// a longer output may improve its score: so its best score is that of its current probability at the next or
/// at the maximum length.
bool BeamSearchSentence::can_improve() const {
  if (finished_.size() < static_cast<size_t>(options_.n_best)) return true;
  for (const Live& hypothesis : live_) {
    const double best =
        std::max(score(hypothesis.log_probability, tokens_), score(hypothesis.log_probability, max_tokens_));
    if (best > finished_.back().score) return true;
  }
  return false;
}

std::vector<int> BeamSearchSentence::advance(std::vector<Candidate> candidates, SearchStep* step) {
  std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& x, const Candidate& y) {
    return x.log_probability > y.log_probability;
  });
  if (step != nullptr) {
    for (const Candidate& candidate : candidates)
      step->considered.push_back({candidate.hypothesis, candidate.token, candidate.log_probability});
    step->kept = std::min(candidates.size(), static_cast<size_t>(options_.beam_size));
  }
  candidates.resize(std::min(candidates.size(), static_cast<size_t>(options_.beam_size)));
  std::vector<Live> next;
  std::vector<int> parents;
  for (const Candidate& candidate : candidates) {
    const std::vector<int32_t>& tokens = live_[static_cast<size_t>(candidate.hypothesis)].tokens;
    if (candidate.token == options_.end_id) {
      const Hypothesis hypothesis{tokens, candidate.log_probability,
                                  score(candidate.log_probability, tokens_)};
      const auto at = std::find_if(finished_.begin(), finished_.end(),
                                   [&](const Hypothesis& other) { return hypothesis.score > other.score; });
      finished_.insert(at, hypothesis);
    } else {
      next.push_back({tokens, candidate.log_probability, candidate.stream});
      next.back().tokens.push_back(candidate.token);
      parents.push_back(candidate.hypothesis);
    }
  }
  finished_.resize(std::min(finished_.size(), static_cast<size_t>(options_.n_best)));
  live_ = std::move(next);
  ++tokens_;
  if (!can_improve()) {
    live_.clear();
    parents.clear();
  }
  return parents;
}

std::vector<Hypothesis> BeamSearchSentence::result() const {
  return finished_;
}

}  // namespace ventris
