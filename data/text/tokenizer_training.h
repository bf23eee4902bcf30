// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ventris::data {

enum class TokenizerKind { kBpe, kUnigram, kWord, kChar };
const char* name_of(TokenizerKind kind);

/// Three of them are marks.
constexpr int kMinVocabulary = 8;

struct TokenizerTraining {
  TokenizerKind kind = TokenizerKind::kBpe;
  int vocab_size = 32000;
  std::string size_option = "--vocab-size";  // in advice
  double character_coverage = 1.0;  // 0: kRichScriptCoverage for text with many Han characters, otherwise 1
  int64_t max_sentences = 2000000;  // sampled evenly from the text
  bool lowercase = false;           // normalisation nmt_nfkc_cf instead of nmt_nfkc
  bool identity = false;            // no normalisation, for text that is already tokenised
  std::vector<std::string> user_symbols;     // each is one token wherever it occurs in text
  std::vector<std::string> control_symbols;  // tokens that no text contains
  bool byte_fallback = false;                // an unknown character becomes the tokens of its UTF-8 bytes
  bool split_digits = false;                 // each digit is a token
  bool no_dummy_prefix = false;              // no space is put before the first word
};

/// As SentencePiece advises for Japanese and Chinese.
constexpr double kRichScriptCoverage = 0.9995;

/// Whether the text is that of a mark of every vocabulary: <unk>, <s> or </s>.
bool is_mark(std::string_view symbol);

/// The symbols of a list "A,B,C"; empty for an empty list.
std::vector<std::string> symbols_of(const std::string& list);

/// Trains on sentences (both languages together) and returns the model's bytes; the same for any number of
/// cores. A vocabulary of words or characters may be smaller than requested. Throws DataError
/// kBadConfiguration for options that contradict each other or symbols that cannot be tokens, and if the
/// vocabulary is too large for the text, naming the largest possible size; kBadData if the text does not
/// yield even kMinVocabulary tokens.
std::string train_tokenizer(const std::vector<std::string>& sentences, const TokenizerTraining& options);

/// The options with which `model` was trained, as a JSON object: the record in a corpus file. Those that
/// version 0.2.0 lacks only if they are used.
std::string training_record(const TokenizerTraining& options, const std::string& model);

}  // namespace ventris::data
