// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "model/batch_stage.h"

namespace ventris::testing {

/// A sentence pair as tokens without marks.
struct SentencePair {
  std::vector<int32_t> source;
  std::vector<int32_t> target;
};

/// Of vocabularies of `vocab` tokens for targets and `source_vocab` for sources; 0: `vocab`.
inline std::vector<SentencePair> random_sentences(const std::vector<std::pair<int, int>>& lengths,
                                                  int64_t vocab, uint32_t seed, int64_t source_vocab = 0) {
  std::mt19937 generator(seed);
  std::vector<SentencePair> pairs;
  const auto tokens = [&](int count, int64_t of) {
    std::vector<int32_t> out;
    for (int i = 0; i < count; ++i) out.push_back(3 + static_cast<int32_t>(generator() % (of - 3)));
    return out;
  };
  for (const auto& [source, target] : lengths) {
    pairs.push_back({tokens(source, source_vocab > 0 ? source_vocab : vocab), {}});
    pairs.back().target = tokens(target, vocab);
  }
  return pairs;
}

/// What a training step knows of a micro-batch besides its sentences.
struct BatchKeys {
  float gradient_scale = 1.0F;
  uint32_t step = 3;
  uint32_t source_row_base = 0;
  uint32_t target_row_base = 0;
};

/// Owns a packed micro-batch: begin mark 1, end mark 2, padding rows of token 0 after the last token.
class PackedBatch {
 public:
  explicit PackedBatch(const std::vector<SentencePair>& pairs, int64_t source_padding = 0,
                       int64_t target_padding = 0) {
    for (const SentencePair& pair : pairs) {
      append(pair.source, source_ids_, source_position_);
      source_ids_.push_back(2);
      source_position_.push_back(static_cast<int32_t>(pair.source.size()));
      source_offsets_.push_back(static_cast<int32_t>(source_ids_.size()));
      target_ids_.push_back(1);
      target_position_.push_back(0);
      for (size_t i = 0; i < pair.target.size(); ++i) {
        target_ids_.push_back(pair.target[i]);
        target_position_.push_back(static_cast<int32_t>(i) + 1);
        labels_.push_back(pair.target[i]);
      }
      labels_.push_back(2);
      target_offsets_.push_back(static_cast<int32_t>(target_ids_.size()));
    }
    source_ids_.resize(source_ids_.size() + static_cast<size_t>(source_padding));
    source_position_.resize(source_ids_.size());
    target_ids_.resize(target_ids_.size() + static_cast<size_t>(target_padding));
    target_position_.resize(target_ids_.size());
    labels_.resize(target_ids_.size());
  }

  int64_t target_tokens() const { return target_offsets_.back(); }
  int64_t target_rows() const { return static_cast<int64_t>(target_ids_.size()); }
  int64_t source_rows() const { return static_cast<int64_t>(source_ids_.size()); }
  const std::vector<int32_t>& source_offsets() const { return source_offsets_; }
  const std::vector<int32_t>& target_offsets() const { return target_offsets_; }

  /// [sentences]; empty: none.
  void set_weights(std::vector<float> weights) { weights_ = std::move(weights); }
  bool weighted() const { return !weights_.empty(); }

  HostBatch view(const BatchKeys& keys = {}) const {
    return {.source_ids = source_ids_,
            .source_position = source_position_,
            .source_offsets = source_offsets_,
            .target_ids = target_ids_,
            .target_position = target_position_,
            .labels = labels_,
            .target_offsets = target_offsets_,
            .weights = weights_,
            .source_dropout = {keys.step, keys.source_row_base},
            .target_dropout = {keys.step, keys.target_row_base},
            .gradient_scale = keys.gradient_scale};
  }

 private:
  static void append(const std::vector<int32_t>& tokens, std::vector<int32_t>& ids,
                     std::vector<int32_t>& position) {
    ids.insert(ids.end(), tokens.begin(), tokens.end());
    for (size_t i = 0; i < tokens.size(); ++i) position.push_back(static_cast<int32_t>(i));
  }

  std::vector<int32_t> source_ids_, source_position_, source_offsets_ = {0};
  std::vector<int32_t> target_ids_, target_position_, target_offsets_ = {0};
  std::vector<int32_t> labels_;
  std::vector<float> weights_;
};

}  // namespace ventris::testing
