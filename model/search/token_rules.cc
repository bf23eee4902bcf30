// SPDX-License-Identifier: Apache-2.0
#include "model/search/token_rules.h"

#include <algorithm>

namespace ventris {

TokenRules::TokenRules(const BeamSearchOptions& options, int64_t vocab_size)
    : options_(options), vocab_size_(vocab_size) {
  clear();
}

void TokenRules::clear() {
  labels_.clear();
  any_forced_ = false;
  banned_.clear();
  banned_begin_.assign(1, 0);
  repeated_.clear();
  repeated_begin_.assign(1, 0);
  draws_.clear();
}

/// Bans the tokens that would make the last no_repeat_ngram - 1 tokens and themselves a sequence that already
/// occurs.
void TokenRules::ban_repeated_ngrams(std::span<const int32_t> tokens) {
  const auto kept = static_cast<size_t>(options_.no_repeat_ngram) - 1;
  if (tokens.size() <= kept) return;
  const auto last = tokens.last(kept);
  for (size_t begin = 0; begin + kept < tokens.size(); ++begin) {
    const auto here = tokens.subspan(begin, kept);
    if (std::equal(here.begin(), here.end(), last.begin())) banned_.push_back(tokens[begin + kept]);
  }
}

void TokenRules::add(std::span<const int32_t> tokens, int32_t forced) {
  labels_.push_back(std::max(forced, 0));
  any_forced_ = any_forced_ || forced >= 0;
  if (forced < 0) {
    const auto first = banned_.end() - banned_.begin();
    if (options_.no_repeat_ngram > 0) ban_repeated_ngrams(tokens);
    std::sort(banned_.begin() + first, banned_.end());
    banned_.erase(std::unique(banned_.begin() + first, banned_.end()), banned_.end());
    // All except the begin mark, the unknown token and the end mark: then the output ends, even below the
    // minimum length.
    const bool nothing_else = banned_.end() - banned_.begin() - first >= vocab_size_ - 3;
    if (static_cast<int64_t>(tokens.size()) < options_.min_length && !nothing_else) {
      banned_.push_back(options_.end_id);
    }
  }
  banned_begin_.push_back(static_cast<int32_t>(banned_.size()));
  if (options_.repetition_penalty != 1.0F) {
    const auto first = repeated_.end() - repeated_.begin();
    repeated_.insert(repeated_.end(), tokens.begin(), tokens.end());
    std::sort(repeated_.begin() + first, repeated_.end());
    repeated_.erase(std::unique(repeated_.begin() + first, repeated_.end()), repeated_.end());
  }
  repeated_begin_.push_back(static_cast<int32_t>(repeated_.size()));
}

std::span<const int32_t> TokenRules::banned_of(int64_t row) const {
  const auto r = static_cast<size_t>(row);
  return std::span(banned_).subspan(static_cast<size_t>(banned_begin_[r]),
                                    static_cast<size_t>(banned_begin_[r + 1] - banned_begin_[r]));
}

}  // namespace ventris
