// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "model/attention_maps.h"
#include "trainer/inference/model_set.h"
#include "trainer/inference/translation.h"

namespace ventris {

enum class AlignmentForm { kNone, kSoft, kHard };

/// The units of an alignment: words between spaces; tokens of the vocabulary; or for each side of each line
/// tokens if it is_unspaced() (data/scores/unspaced_text.h), otherwise words.
enum class AlignmentUnit { kAuto, kWord, kToken };

/// The index of the word of each piece, from 0. A piece that begins with U+2581 begins a word.
std::vector<int> word_numbers(const data::Tokenizer& tokenizer, const std::vector<int32_t>& pieces);

/// Links the words (or tokens) of translations to those of their sources by cross-attention: the translation
/// is forced through the decoder; the weight of a source word is the sum over its pieces, and that of a
/// target word the mean over its pieces. Weights are means over the heads of one layer, and over the models
/// of an ensemble.
class Aligner {
 public:
  /// The references must outlive the object. `layer` of the decoder counts from 1; 0 is the one before the
  /// last if there are more than four, otherwise the last. Throws Error(kBadConfiguration) if a model has no
  /// such layer.
  Aligner(Context& context, Communicator& communicator, const ModelSet& models, int layer,
          AlignmentUnit unit);

  /// One text for each translation of each line, on every rank; all ranks must call it with the same lines.
  ///   hard: SOURCE-TARGET, from 0, the likeliest source word of each target word, ordered by source word;
  ///   soft: for each target word the weights of all source words, separated by commas. What they lack to 1
  ///   is
  ///         that of the end mark.
  /// The text is empty if a side has no words. It depends only on the pair.
  std::vector<std::vector<std::string>> align(const std::vector<TranslatedLine>& lines, AlignmentForm form);

 private:
  std::vector<int> unit_numbers(const data::Tokenizer& tokenizer, const std::vector<int32_t>& pieces) const;
  std::string text_of(const TokenPair& pair, const std::vector<AttentionMap>& maps, AlignmentForm form) const;

  Communicator& communicator_;
  const data::TokenizerPair& tokenizers_;
  const AlignmentUnit unit_;
  std::vector<std::unique_ptr<AttentionMapper>> mappers_;  // of each model
  std::vector<int> layers_;                                // from 0
};

}  // namespace ventris
