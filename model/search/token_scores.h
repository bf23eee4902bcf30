// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/device/arena.h"
#include "backend/device/context.h"
#include "model/search/beam_search.h"
#include "model/search/sampling.h"
#include "model/search/search_models.h"
#include "model/search/staged_arrays.h"

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

/// Scores the permitted next tokens of each hypothesis on the device and copies the best of them to the host;
/// or samples tokens from logits that it copies to the host.
class TokenScores {
 public:
  /// The references must outlive the object.
  TokenScores(Context& context, int64_t vocab_size, const BeamSearchOptions& options);

  /// Scores the hypotheses of the last step of the models, one for each row of the rules.
  void compute(SearchModels& models, const TokenRules& rules);

  /// Without sampling: the best tokens of hypothesis `row`, best first, and their log-probabilities; -1 if
  /// the rules leave fewer. Their number is beam_size, or that of all tokens that can be produced if smaller.
  int tokens_per_row() const { return static_cast<int>(tokens_per_row_); }
  const int32_t* tokens(int64_t row) const { return scores_.tokens + row * tokens_per_row_; }
  const float* log_probabilities(int64_t row) const { return scores_.values + row * tokens_per_row_; }
  /// That of the forced token of this row; requires that there is one.
  float forced_log_probability(int64_t row) const { return scores_.forced[row]; }
  /// With sampling: the tokens requested by the rules, in their order.
  const DrawnToken& drawn(size_t draw) const { return drawn_[draw]; }

 private:
  /// Pieces of one block, so that one copy transfers all.
  struct Scores {
    float* values;    // [rows, tokens_per_row]
    int32_t* tokens;  // [rows, tokens_per_row]
    float* forced;    // [rows]
  };
  /// Inputs of the operations of a step, on the device.
  struct Lists {
    const int32_t* labels;
    const int32_t* banned;
    const int32_t* banned_begin;
    const int32_t* repeated;
    const int32_t* repeated_begin;
  };
  size_t bytes(int64_t rows) const;
  Scores pieces(void* block, int64_t rows) const;
  void reserve(int64_t rows);
  void send_lists(const TokenRules& rules);
  void draw(ConstTensor logits, int64_t begin, const TokenRules& rules);

  Context& context_;
  const BeamSearchOptions& options_;
  const int64_t vocab_size_;
  const int64_t tokens_per_row_;
  Arena banned_memory_;
  int32_t* banned_;  // tokens that no row may produce, -1 at the end
  StagedArrays staged_;
  Lists lists_ = {};
  std::vector<TokenSampler> samplers_;  // of the threads
  std::vector<DrawnToken> drawn_;
  int64_t capacity_ = 0;
  Arena memory_;
  void* block_ = nullptr;  // on the device
  std::vector<char> copy_;
  Scores scores_ = {};  // in copy_
};

}  // namespace ventris
