// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "trainer/inference/translation.h"

namespace ventris {

/// A longer sentence has no page: one of the base model with so many tokens has 38 million weights, 75 MB.
inline constexpr size_t kMaxAttentionTokens = 512;
/// The number of hypotheses, the best, that the page has of those that fell out at a step; it always has
/// those that were kept and the reference.
inline constexpr size_t kShownFallen = 100;

/// The sentence of a page, and its translation by a person; "" if there is none.
struct SentenceTexts {
  std::string source;
  std::string reference;
};

/// What a page shows of a sentence and a model.
struct SentenceView {
  nlohmann::ordered_json json = {};  // as launch/pages/attention.js reads it
  size_t maps = 0;                   // of the translation
  size_t map_bytes = 0;              // of all weights in the JSON
  size_t steps = 0;                  // of the search; 0 when sampling
};

/// One sentence, cleaned as check_line() does. Throws Error(kUsage) for several lines, and DataError for what
/// is not UTF-8, naming the option.
std::string one_line(std::string text, const std::string& option);

/// Translates the sentence, and computes the attention of the model while it writes its translation and the
/// reference. Throws Error(kBadData) for a sentence that has no tokens, or more than the model or a page can
/// take.
SentenceView view_sentence(Context& context, Communicator& communicator, const ModelSet& models,
                           const BeamSearchOptions& search, const SentenceTexts& sentence);

}  // namespace ventris
