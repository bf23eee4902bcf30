// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "backend/device/arena.h"
#include "backend/device/context.h"
#include "model/search/beam_search.h"
#include "model/search/sampling.h"
#include "model/search/search_models.h"
#include "model/search/staged_arrays.h"
#include "model/search/token_rules.h"

namespace ventris {

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
