#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ventris::data {

enum class TokenizerKind { kBpe, kUnigram };

/// Three of them are marks.
constexpr int kMinVocabulary = 8;

struct TokenizerTraining {
  TokenizerKind kind = TokenizerKind::kBpe;
  int vocab_size = 32000;
  double character_coverage = 1.0;
  int64_t max_sentences = 2000000;  // sampled evenly from the text
  bool lowercase = false;           // normalisation nmt_nfkc_cf instead of nmt_nfkc
  bool identity = false;            // no normalisation, for text that is already tokenised
  std::vector<std::string> user_symbols = {};  // pieces that are never split
};

/// Trains on sentences (both languages together) and returns the model's bytes; the same for any number of
/// cores. Throws DataError kBadConfiguration if the vocabulary is too large for the text, naming the largest
/// possible size, and kBadData if it does not yield even kMinVocabulary tokens.
std::string train_tokenizer(const std::vector<std::string>& sentences, const TokenizerTraining& options);

}  // namespace ventris::data
