// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/text/keyed_random.h"
#include "data/text/subword_pieces.h"

// Private to data/.

namespace ventris::data {

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

/// The text as symbols, and for each of them as a group the edges that begin there, the shortest first, with
/// the score of their piece. A symbol without a piece has an edge to kUnknown.
SubwordText text_with_edges(std::string text, const SubwordPieces& pieces);

/// BPE-dropout (Provilkov et al. 2020, section 3) as SentencePiece does it: neighbours that together are a
/// piece are joined, the best score first and then the leftmost; when its turn comes, a pair is left apart
/// with probability `dropout`, for good. 0 is the deterministic encoding.
std::unique_ptr<SubwordModel> bpe_dropout(const SubwordPieces& pieces, double dropout);

/// Segmentations x of the whole lattice with probability proportional to P(x)^smoothing (Kudo 2018, section
/// 3.2 with l = infinity), by forward filtering and backward sampling. The same on every processor: the sums
/// use basic arithmetic alone.
std::unique_ptr<SubwordModel> unigram_sampling(const SubwordPieces& pieces, double smoothing);

}  // namespace ventris::data
