// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

// Private to data/.

namespace ventris::data {

/// The pieces of a SentencePiece model that text can become, normal ones and those that users define, by
/// their text.
class SubwordPieces {
 public:
  /// Requires bytes that check_sentencepiece_model() accepts; they must outlive the object.
  explicit SubwordPieces(std::string_view model);

  bool has_unused() const { return has_unused_; }  // pieces that the model must not produce
  bool has_user_defined() const { return has_user_defined_; }
  /// Whether no piece has a U+2581 but at its beginning, where words begin.
  bool ends_at_words() const { return ends_at_words_; }
  /// Whether unknown characters become tokens of their bytes.
  bool falls_back_to_bytes() const { return falls_back_to_bytes_; }

  float score(int32_t id) const { return scores_[static_cast<size_t>(id)]; }
  bool is_user_defined(int32_t id) const { return is_user_defined_[static_cast<size_t>(id)]; }
  float lowest_score() const { return lowest_score_; }  // of the normal pieces

  /// Calls each(id, bytes) for every piece that the text begins with, the shortest first.
  template <typename Each>
  void for_each_prefix(std::string_view text, Each&& each) const {
    auto begin = pieces_.begin();  // [begin, end): longer pieces that begin with the bytes so far
    auto end = pieces_.end();
    for (size_t i = 0; i < text.size() && begin != end; ++i) {
      const auto byte_of = [i](const Piece& piece) { return static_cast<unsigned char>(piece.text[i]); };
      const auto found =
          std::ranges::equal_range(begin, end, static_cast<unsigned char>(text[i]), {}, byte_of);
      begin = found.begin();
      end = found.end();
      if (begin == end || begin->text.size() > i + 1) continue;
      each(begin->id, i + 1);
      ++begin;
    }
  }

 private:
  struct Piece {
    std::string_view text;
    int32_t id;
  };
  void read_piece(std::string_view message);

  std::vector<Piece> pieces_;  // sorted by text
  std::vector<float> scores_;  // by id
  std::vector<bool> is_user_defined_;
  bool has_unused_ = false;
  bool has_user_defined_ = false;
  bool ends_at_words_ = true;
  bool falls_back_to_bytes_ = false;
  float lowest_score_ = std::numeric_limits<float>::max();
};

}  // namespace ventris::data
