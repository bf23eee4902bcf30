// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "data/text/prefix_tree.h"

// Private to data/.

namespace ventris::data {

/// The vocabulary of a SentencePiece model as a search tree over the bytes of the pieces that text can
/// become: normal pieces and those that users define.
class SubwordPieces {
 public:
  enum class Model { kUnigram = 1, kBpe = 2, kWord = 3, kCharacters = 4 };  // as in the file

  /// Requires bytes that check_sentencepiece_model() accepts.
  explicit SubwordPieces(std::string_view model);

  Model model() const { return model_; }
  bool has_unused() const { return has_unused_; }  // pieces that the model must not produce
  bool has_user_defined() const { return has_user_defined_; }
  /// Whether no piece has a U+2581 but at its beginning, where words begin.
  bool ends_at_words() const { return ends_at_words_; }
  /// Whether unknown characters become tokens of their bytes.
  bool falls_back_to_bytes() const { return falls_back_to_bytes_; }

  int32_t unknown_id() const { return unknown_id_; }
  /// Of the piece for a byte, or unknown_id() if there is none.
  int32_t byte_id(unsigned char byte) const { return byte_ids_[byte] >= 0 ? byte_ids_[byte] : unknown_id_; }

  float score(int32_t id) const { return scores_[static_cast<size_t>(id)]; }
  bool is_user_defined(int32_t id) const { return is_user_defined_[static_cast<size_t>(id)]; }
  /// Of the normal pieces.
  float lowest_score() const { return lowest_score_; }
  /// Of the normal pieces, but at least the smallest normal number, as in SentencePiece.
  float highest_score() const { return highest_score_; }
  int32_t size() const { return static_cast<int32_t>(scores_.size()); }

  /// Calls each(id, bytes) for every piece that the text begins with, the shortest first.
  template <typename Each>
  void for_each_prefix(std::string_view text, Each&& each) const {
    tree_.for_each_prefix(text, std::forward<Each>(each));
  }

 private:
  void read_trainer(std::string_view message);
  void read_piece(std::string_view message, std::vector<PrefixTree::Key>& pieces);

  Model model_ = Model::kUnigram;
  bool has_unused_ = false;
  bool has_user_defined_ = false;
  bool ends_at_words_ = true;
  bool falls_back_to_bytes_ = false;
  int32_t unknown_id_ = 0;
  std::array<int32_t, 256> byte_ids_;
  std::vector<float> scores_;
  std::vector<bool> is_user_defined_;
  float lowest_score_ = std::numeric_limits<float>::max();
  float highest_score_ = std::numeric_limits<float>::min();
  PrefixTree tree_;
};

}  // namespace ventris::data
