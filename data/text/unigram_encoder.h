// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/normaliser.h"
#include "data/text/subword_pieces.h"

// Private to data/.

namespace ventris::data {

/// Encodes text with a unigram model, id for id as SentencePiece 0.1.97 does (EncodeOptimized), which adds
/// the scores of a line's pieces from left to right in single precision, and so decides between nearly equal
/// segmentations of a word by the rounding of all that stands before it. For one thread at a time; copies
/// share the model.
class UnigramEncoder {
 public:
  /// The bytes of a unigram model that check_sentencepiece_model() accepts; they must outlive all copies.
  explicit UnigramEncoder(std::string_view model);

  /// Appends the ids of a text of valid UTF-8. `sum` is that of the scores before the text, 0 at the
  /// beginning of a line; returns the sum after it. Of a part of a line the ids are right if no segmentation
  /// reaches over its ends and it is normalised as in its line.
  float encode(std::string_view text, float sum, std::vector<int32_t>& ids);

  /// What a part of a line becomes wherever it stands, as long as the sums are not too large.
  struct Part {
    std::vector<int32_t> ids;
    std::vector<double> scores;  // to be added to a sum by add_score(), in this order
    float weight = 0.0F;         // at least minus the sum of all scores
    /// encode() gives the same ids if the weights of all parts of the line up to this one, itself included,
    /// are below it; or where encode() gave a sum, minus that sum and the weights since then. 0: never.
    float limit = 0.0F;
  };
  /// Overwrites `part`. unigram_encoder.cc has the proof.
  void analyse(std::string_view text, Part& part);

  static float add_score(float sum, double score) { return static_cast<float>(sum + score); }

 private:
  struct Model;
  struct Token {
    int32_t id;  // or kUnknown: one character
    uint32_t begin;
  };
  struct End {  // of the best segmentation up to a byte
    float sum;
    int32_t id;
    uint32_t begin;  // of its last token
  };
  struct TwoEnds {  // of the two best segmentations up to a byte, in double precision
    double best;
    double second;
    int32_t id;
    uint32_t begin;
  };
  static constexpr int32_t kUnknown = -1;
  static constexpr int32_t kNone = -2;  // no segmentation ends here

  void append_ids(std::vector<int32_t>& ids) const;

  std::shared_ptr<const Model> model_;
  std::string text_;  // normalised
  std::vector<End> ends_;
  std::vector<TwoEnds> two_ends_;
  std::vector<Token> tokens_;  // of text_
};

}  // namespace ventris::data
