// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/text/subword_model.h"
#include "data/text/tokenizer.h"

// Private to data/.

namespace ventris::data {

/// Draws segmentations of text into the tokens of a SentencePiece model. Normalisation, unknown characters
/// and bytes are as in Tokenizer::encode(), and decoding gives the same text; a piece that users define is
/// always one token. Keeps what it found out about words. For one thread at a time.
class SubwordSampler {
 public:
  /// `alpha` is the dropout of a BPE model or the smoothing of a unigram model (subword_model.h). Throws
  /// DataError kBadConfiguration for a model of another kind, or with pieces that it must not produce. The
  /// tokenizer must outlive the object.
  SubwordSampler(const Tokenizer& tokenizer, double alpha);

  /// Overwrites ids with a segmentation, without marks: a function of text, which is valid UTF-8, and key
  /// alone.
  void sample(std::string_view text, uint64_t key, std::vector<int32_t>& ids);

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  SubwordSampler(const Tokenizer& tokenizer, const SentencePieceModel& model, double alpha);
  const std::string& normalised(std::string_view text);
  void append_word(std::string_view word, KeyedRandom& random, std::vector<int32_t>& ids);
  void append(const SubwordText& text, KeyedRandom& random, std::vector<int32_t>& ids);

  const Tokenizer& tokenizer_;
  const SubwordPieces pieces_;
  const std::unique_ptr<SubwordModel> model_;
  const bool words_apart_;
  std::vector<int32_t> byte_ids_;  // of models whose unknown characters become tokens of their bytes
  std::unordered_map<std::string, SubwordText, Hash, std::equal_to<>> words_;
  size_t edges_ = 0;  // of words_
  std::vector<SubwordModel::Token> tokens_;
  std::vector<int32_t> plain_;  // of normalised()
  std::string normalised_;
  bool after_unknown_ = false;  // the last token is one of unknown characters, which the next ones join
};

}  // namespace ventris::data
