// SPDX-License-Identifier: Apache-2.0
#include "launch/sentence_attention.h"

#include <algorithm>

#include "backend/error.h"
#include "launch/output.h"
#include "trainer/files/marks.h"

namespace ventris {

std::string one_line(std::string text, const std::string& option) {
  if (text.find_first_of("\r\n") != std::string::npos) {
    fail(ExitCode::kUsage, "{} has more than one line; expected one sentence", option);
  }
  check_line(text, option, 1);
  return text;
}

std::vector<int32_t> attention_tokens(const data::Tokenizer& tokenizer, size_t longest,
                                      const std::string& text, const std::string& what, bool required) {
  std::vector<int32_t> tokens = tokenizer.encode(text);
  const size_t max = std::min(kMaxAttentionTokens, longest);
  if (tokens.size() > max) {
    fail(ExitCode::kBadData, "{} has {} tokens of the vocabulary; a page of this model holds at most {}",
         what, tokens.size(), max);
  }
  if (required && tokens.empty()) fail(ExitCode::kBadData, "{} has no tokens", what);
  return tokens;
}

SentenceMapper::SentenceMapper(Context& context, Communicator& communicator, const ModelSet& models,
                               const BeamSearchOptions& search)
    : context_(context),
      communicator_(communicator),
      models_(models),
      search_(search),
      model_(models.search_models().front()),
      mapper_(context, model_.config, model_.store, model_.ids, marks_of(models.tokenizers())) {}

std::vector<int32_t> SentenceMapper::source_tokens(const Sentence& source) const {
  return attention_tokens(models_.tokenizers().source(), models_.longest_sentence(), source.text, source.name,
                          /*required=*/true);
}

SentenceAttention SentenceMapper::translated(const Sentence& source) {
  const std::vector<int32_t> tokens = source_tokens(source);
  if (!translator_) translator_.emplace(context_, communicator_, models_, search_);
  const Translation best = translator_->translate({source.text}).front().translations.front();
  return with_maps({.source = source.text, .target = best.text, .translated = true}, tokens, best.tokens);
}

SentenceAttention SentenceMapper::given(const Sentence& source, const Sentence& target) {
  const std::vector<int32_t> tokens = source_tokens(source);
  return with_maps({.source = source.text, .target = target.text}, tokens,
                   attention_tokens(models_.tokenizers().target(), models_.longest_sentence(), target.text,
                                    target.name, /*required=*/false));
}

SentenceAttention SentenceMapper::with_maps(SentenceAttention attention, const std::vector<int32_t>& source,
                                            const std::vector<int32_t>& target) {
  const data::Tokenizer& of_source = models_.tokenizers().source();
  const data::Tokenizer& of_target = models_.tokenizers().target();
  for (const int32_t token : source) attention.source_tokens.push_back(of_source.piece(token));
  attention.source_tokens.push_back(of_source.piece(of_source.end_id()));
  attention.target_tokens.push_back(of_target.piece(of_target.begin_id()));
  for (const int32_t token : target) attention.target_tokens.push_back(of_target.piece(token));
  attention.target_tokens.push_back(of_target.piece(of_target.end_id()));
  attention.heads = model_.config.heads;
  attention.maps = mapper_.all_maps({source, target});
  return attention;
}

}  // namespace ventris
