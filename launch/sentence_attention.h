// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/attention_maps.h"
#include "trainer/inference/translation.h"

namespace ventris {

// A page of the base model with this many tokens has 38 million weights, 75 MB.
inline constexpr size_t kMaxAttentionTokens = 512;

/// Where a model looks in a sentence and while it writes a target.
struct SentenceAttention {
  std::string source;                           // text
  std::string target;                           // text
  bool translated = false;                      // the target is the model's own translation
  std::vector<std::string> source_tokens = {};  // pieces of the vocabulary with the end mark: n + 1
  std::vector<std::string> target_tokens = {};  // with the begin mark and the end mark: m + 2
  int heads = 0;
  AttentionMapper::AllMaps maps = {};
};

/// One sentence, cleaned as check_line() does. Throws Error(kUsage) for several lines, and DataError for what
/// is not UTF-8, naming the option.
std::string one_line(std::string text, const std::string& option);

/// The tokens of a text, without marks. Throws Error(kBadData), naming `what`, for more of them than
/// kMaxAttentionTokens or `longest`, or for none if `required`.
std::vector<int32_t> attention_tokens(const data::Tokenizer& tokenizer, size_t longest,
                                      const std::string& text, const std::string& what, bool required);

/// Translates sentences with a model, and computes its attention.
class SentenceMapper {
 public:
  /// The references must outlive the object.
  SentenceMapper(Context& context, Communicator& communicator, const ModelSet& models,
                 const BeamSearchOptions& search);

  struct Sentence {
    std::string text;
    std::string name;  // in messages
  };
  /// The target is the translation by the model. Errors: those of attention_tokens().
  SentenceAttention translated(const Sentence& source);
  /// The target is given. Errors: those of attention_tokens().
  SentenceAttention given(const Sentence& source, const Sentence& target);

 private:
  std::vector<int32_t> source_tokens(const Sentence& source) const;
  SentenceAttention with_maps(SentenceAttention attention, const std::vector<int32_t>& source,
                              const std::vector<int32_t>& target);

  Context& context_;
  Communicator& communicator_;
  const ModelSet& models_;
  const BeamSearchOptions search_;
  const SearchModel model_;
  AttentionMapper mapper_;
  std::optional<Translator> translator_ = {};  // made by the first translation
};

}  // namespace ventris
