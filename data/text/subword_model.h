// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/keyed_random.h"
#include "data/text/sentencepiece_format.h"

// Private to data/.

namespace ventris::data {

/// The pieces of a SentencePiece model that text can become, normal ones and those that users define, by
/// their text.
class SubwordPieces {
 public:
  /// The bytes of the model must outlive the object.
  explicit SubwordPieces(const SentencePieceModel& model);

  bool has_unused() const { return has_unused_; }  // pieces that the model must not produce
  bool has_user_defined() const { return has_user_defined_; }
  /// Whether no piece has a U+2581 but at its beginning, where words begin.
  bool ends_at_words() const { return ends_at_words_; }
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
      const auto byte = static_cast<unsigned char>(text[i]);
      begin = std::ranges::lower_bound(begin, end, byte, {}, byte_of);
      end = std::ranges::upper_bound(begin, end, byte, {}, byte_of);
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
  std::vector<Piece> pieces_;  // sorted by text
  std::vector<float> scores_;  // by id
  std::vector<bool> is_user_defined_;
  bool has_unused_ = false;
  bool has_user_defined_ = false;
  bool ends_at_words_ = true;
  float lowest_score_ = std::numeric_limits<float>::max();
};

/// A normalised text with the pieces of its symbols: characters, or pieces that users define, which are never
/// cut or joined.
struct SubwordText {
  static constexpr int32_t kUnknown = -1;
  struct Edge {
    int32_t id;        // or kUnknown: one character that is no piece
    uint32_t symbols;  // that it covers
    double value;      // as the model needs it
  };
  struct Token {
    int32_t id;      // or kUnknown
    uint32_t begin;  // symbols [begin, end)
    uint32_t end;
  };

  std::string text;
  std::vector<uint32_t> begin;  // [symbols + 1] in bytes
  std::vector<uint32_t> first;  // [symbols + 1] edge of each group
  std::vector<Edge> edges;
  std::vector<Token> plain;  // of BPE: the deterministic encoding, and the joins that lead to it
  uint32_t joins = 0;

  size_t symbols() const { return begin.size() - 1; }
};

/// One way to draw segmentations. For one thread at a time.
class SubwordModel {
 public:
  using Token = SubwordText::Token;
  static constexpr int32_t kUnknown = SubwordText::kUnknown;

  virtual ~SubwordModel() = default;
  /// What draw() needs to know of a text.
  virtual SubwordText prepare(std::string text) = 0;
  /// Appends the tokens of a segmentation, in the order of the text.
  virtual void draw(const SubwordText& text, KeyedRandom& random, std::vector<Token>& tokens) = 0;
};

/// BPE-dropout (Provilkov et al. 2020, section 3) as SentencePiece does it: neighbours that together are a
/// piece are joined, the best score first and then the leftmost; when its turn comes, a pair is left apart
/// with probability `dropout`, for good. 0 is the deterministic encoding.
std::unique_ptr<SubwordModel> bpe_dropout(const SubwordPieces& pieces, double dropout);

/// Segmentations x of the whole lattice with probability proportional to P(x)^smoothing (Kudo 2018, section
/// 3.2 with l = infinity), by forward filtering and backward sampling. The same on every processor: the sums
/// use basic arithmetic alone.
std::unique_ptr<SubwordModel> unigram_sampling(const SubwordPieces& pieces, double smoothing);

}  // namespace ventris::data
