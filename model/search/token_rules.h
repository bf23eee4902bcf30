// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/search/beam_search.h"
#include "model/search/sampling.h"

namespace ventris {

/// The constraints on the next token of each hypothesis of one step, independent of the model, in host
/// memory.
class TokenRules {
 public:
  /// `options` must outlive the object.
  TokenRules(const BeamSearchOptions& options, int64_t vocab_size);

  /// Starts a step.
  void clear();
  /// Adds the next row: a hypothesis with these tokens. `forced`: the only token that may follow, or -1.
  void add(std::span<const int32_t> tokens, int32_t forced);
  /// Requests a sampled token for the last row added.
  void add_draw(const DrawKey& key) { draws_.push_back({static_cast<int32_t>(labels_.size()) - 1, key}); }

  struct Draw {
    int32_t row;
    DrawKey key;
  };

  int64_t rows() const { return static_cast<int64_t>(labels_.size()); }
  bool any_forced() const { return any_forced_; }
  bool any_banned() const { return !banned_.empty(); }
  bool any_repeated() const { return !repeated_.empty(); }
  /// For each row the forced token, or 0.
  const std::vector<int32_t>& labels() const { return labels_; }
  /// Concatenated lists of tokens, and for row r their begin [r] and end [r + 1].
  const std::vector<int32_t>& banned() const { return banned_; }
  const std::vector<int32_t>& banned_begin() const { return banned_begin_; }
  const std::vector<int32_t>& repeated() const { return repeated_; }
  const std::vector<int32_t>& repeated_begin() const { return repeated_begin_; }
  const std::vector<Draw>& draws() const { return draws_; }
  std::span<const int32_t> banned_of(int64_t row) const;

 private:
  void ban_repeated_ngrams(std::span<const int32_t> tokens);

  const BeamSearchOptions& options_;
  const int64_t vocab_size_;
  std::vector<int32_t> labels_;
  bool any_forced_ = false;
  std::vector<int32_t> banned_;
  std::vector<int32_t> banned_begin_;
  std::vector<int32_t> repeated_;
  std::vector<int32_t> repeated_begin_;
  std::vector<Draw> draws_;
};

}  // namespace ventris
