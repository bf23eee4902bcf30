// SPDX-License-Identifier: Apache-2.0
#include "data/text/tokenizer_training.h"

#include <sentencepiece_trainer.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>

#include "data/error.h"
#include "data/io/json_text.h"
#include "data/text/sentencepiece_format.h"
#include "data/text/text_reader.h"
#include "data/text/unicode.h"

namespace ventris::data {

namespace {

// The sums of the unigram trainer depend on the number of threads: a constant gives the same model on any
// machine.
constexpr int kTrainingThreads = 8;

class Sentences : public sentencepiece::SentenceIterator {
 public:
  explicit Sentences(const std::vector<std::string>& sentences) : sentences_(sentences) {}
  bool done() const override { return at_ >= sentences_.size(); }
  void Next() override { ++at_; }
  const std::string& value() const override { return sentences_[at_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  const std::vector<std::string>& sentences_;
  size_t at_ = 0;
};

/// The number that follows `mark` in a message of the trainer.
std::optional<int> number_after(const std::string& message, const std::string& mark) {
  const size_t at = message.find(mark);
  int number = 0;
  if (at == std::string::npos ||
      std::from_chars(message.data() + at + mark.size(), message.data() + message.size(), number).ec !=
          std::errc()) {
    return std::nullopt;
  }
  return number;
}

std::string normalisation(const TokenizerTraining& options) {
  return options.identity ? "identity" : options.lowercase ? "nmt_nfkc_cf" : "nmt_nfkc";
}

/// Japanese or Chinese beside another language: at least a twentieth of the characters is Han. Uses at most
/// 20,000 sentences, evenly spaced.
bool has_rich_script(const std::vector<std::string>& sentences) {
  constexpr size_t kSentences = 20000;
  constexpr int64_t kShare = 20;
  int64_t han = 0;
  int64_t all = 0;
  // Odd, so that both languages count, which alternate.
  const size_t distance = sentences.size() / kSentences | 1;
  for (size_t i = 0; i < sentences.size(); i += distance) {
    for (const char32_t c : unicode::decode(sentences[i])) {
      if (unicode::is_space(c)) continue;
      ++all;
      if (unicode::is_han(c)) ++han;
    }
  }
  return all > 0 && kShare * han >= all;
}

double resolved_coverage(const std::vector<std::string>& sentences, const TokenizerTraining& options) {
  if (options.character_coverage > 0.0) return options.character_coverage;
  const bool words = options.kind == TokenizerKind::kWord;  // they need no characters
  return !words && has_rich_script(sentences) ? kRichScriptCoverage : 1.0;
}

/// "<0x00>" to "<0xFF>", as SentencePiece writes them.
bool is_byte(std::string_view symbol) {
  return symbol.size() == 6 && symbol.starts_with("<0x") && symbol.ends_with('>') &&
         symbol.substr(3, 2).find_first_not_of("0123456789ABCDEF") == std::string_view::npos;
}

void check_symbols(const TokenizerTraining& options) {
  std::set<std::string_view> seen;
  const auto check = [&](const char* option, const std::string& symbol) {
    const auto refuse = [&](const char* why) {
      fail(ErrorKind::kBadConfiguration, "{}: '{}' cannot be a symbol: {}", option, symbol, why);
    };
    if (symbol.empty()) refuse("it is empty; separate symbols by one comma");
    if (symbol.find('\0') != std::string::npos || find_invalid_utf8(symbol) >= 0)
      refuse("it is not UTF-8 text");
    const std::u32string characters = unicode::decode(symbol);
    if (std::any_of(characters.begin(), characters.end(), unicode::is_space))
      refuse("it has white space, which separates tokens");
    if (is_mark(symbol)) refuse("it is a mark of every vocabulary");
    if (options.byte_fallback && is_byte(symbol)) refuse("with --byte-fallback it is the token of a byte");
    if (!seen.insert(symbol).second) refuse("it is given twice");
  };
  for (const std::string& symbol : options.user_symbols) check("--user-symbols", symbol);
  for (const std::string& symbol : options.control_symbols) {
    check("--control-symbols", symbol);
    if (unicode::decode(symbol).size() == 1) {
      fail(ErrorKind::kBadConfiguration,
           "--control-symbols: '{}' cannot be a symbol: a line with this character could not be tokenized; "
           "give it more characters, such as <{}>",
           symbol, symbol);
    }
  }
}

void check_options(const TokenizerTraining& options) {
  const bool pieces = options.kind == TokenizerKind::kBpe || options.kind == TokenizerKind::kUnigram;
  if (options.identity && options.lowercase) {
    fail(ErrorKind::kBadConfiguration, "a tokenizer cannot both lowercase the text and leave it unchanged");
  }
  if (options.split_digits && !pieces) {
    fail(ErrorKind::kBadConfiguration,
         "--split-digits is for bpe and unigram: a vocabulary of kind {} has no pieces of several digits",
         name_of(options.kind));
  }
  if (options.no_dummy_prefix && options.kind == TokenizerKind::kWord) {
    fail(ErrorKind::kBadConfiguration,
         "--no-dummy-prefix makes the first word of a line another token than the same word elsewhere; "
         "with --tokenizer word leave it out");
  }
  if (options.byte_fallback && options.kind == TokenizerKind::kWord) {
    fail(ErrorKind::kBadConfiguration,
         "--byte-fallback is for pieces of words: with --tokenizer word a word that is not in the vocabulary "
         "is the unknown token");
  }
  check_symbols(options);
}

/// As SentencePiece reads a list: quoted where a symbol has a quote or a comma.
std::string as_csv(const std::vector<std::string>& symbols) {
  std::string list;
  for (const std::string& symbol : symbols) {
    if (!list.empty()) list += ',';
    if (symbol.find_first_of(",\"") == std::string::npos) {
      list += symbol;
      continue;
    }
    list += '"';
    for (const char c : symbol) list += c == '"' ? "\"\"" : std::string(1, c);
    list += '"';
  }
  return list;
}

std::unordered_map<std::string, std::string> arguments_of(const TokenizerTraining& options, double coverage) {
  std::unordered_map<std::string, std::string> arguments = {
      {"model_type", name_of(options.kind)},
      {"vocab_size", fmt::format("{}", options.vocab_size)},
      {"character_coverage", fmt::format("{}", coverage)},
      {"normalization_rule_name", normalisation(options)},
      {"num_threads", fmt::format("{}", kTrainingThreads)},
      {"unk_id", "0"},
      {"bos_id", "1"},
      {"eos_id", "2"},
      {"pad_id", "-1"},
      {"minloglevel", "3"},  // no output on the standard error
  };
  // Not given if not used: the bytes of the model stay those of earlier versions.
  if (!options.user_symbols.empty()) {
    std::vector<std::string> symbols = options.user_symbols;
    // A word of the vocabulary has the space before it.
    for (std::string& symbol : symbols) {
      if (options.kind == TokenizerKind::kWord && !symbol.starts_with(kSpaceMark))
        symbol = std::string(kSpaceMark) + symbol;
    }
    arguments["user_defined_symbols"] = as_csv(symbols);
  }
  if (!options.control_symbols.empty()) arguments["control_symbols"] = as_csv(options.control_symbols);
  if (options.byte_fallback) arguments["byte_fallback"] = "true";
  if (options.split_digits) arguments["split_digits"] = "true";
  if (options.no_dummy_prefix) arguments["add_dummy_prefix"] = "false";
  if (options.kind == TokenizerKind::kWord) arguments["hard_vocab_limit"] = "false";
  return arguments;
}

}  // namespace

const char* name_of(TokenizerKind kind) {
  switch (kind) {
    case TokenizerKind::kBpe:
      return "bpe";
    case TokenizerKind::kUnigram:
      return "unigram";
    case TokenizerKind::kWord:
      return "word";
    case TokenizerKind::kChar:
      return "char";
  }
  return "";
}

bool is_mark(std::string_view symbol) {
  constexpr std::string_view kMarks[] = {"<unk>", "<s>", "</s>"};
  return std::ranges::find(kMarks, symbol) != std::end(kMarks);
}

std::vector<std::string> symbols_of(const std::string& list) {
  std::vector<std::string> symbols;
  if (list.empty()) return symbols;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    symbols.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return symbols;
}

std::string training_record(const TokenizerTraining& options, const std::string& model) {
  nlohmann::ordered_json record;
  record["kind"] = name_of(options.kind);
  record["vocab_size"] = options.vocab_size;
  record["character_coverage"] = options.character_coverage > 0.0 ? options.character_coverage
                                 : SentencePieceModel(model).character_coverage < 1.0F ? kRichScriptCoverage
                                                                                       : 1.0;
  record["max_sentences"] = options.max_sentences;
  record["lowercase"] = options.lowercase;
  record["identity"] = options.identity;
  if (!options.user_symbols.empty()) record["user_symbols"] = options.user_symbols;
  if (!options.control_symbols.empty()) record["control_symbols"] = options.control_symbols;
  if (options.byte_fallback) record["byte_fallback"] = true;
  if (options.split_digits) record["split_digits"] = true;
  if (options.no_dummy_prefix) record["no_dummy_prefix"] = true;
  return json_text(record);
}

std::string train_tokenizer(const std::vector<std::string>& sentences, const TokenizerTraining& options) {
  check_options(options);
  const auto arguments = arguments_of(options, resolved_coverage(sentences, options));
  Sentences iterator(sentences);
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(arguments, &iterator, &model);
  if (status.ok()) {
    return model;
  }
  const std::string message = status.error_message();
  if (const auto largest = number_after(message, "set it to a value <= ")) {
    if (*largest < kMinVocabulary) {
      fail(ErrorKind::kBadData,
           "the text has too few different characters to train a tokenizer: "
           "{} sentences, enough for a vocabulary of at most {} tokens; the minimum is {}",
           sentences.size(), *largest, kMinVocabulary);
    }
    fail(ErrorKind::kBadConfiguration,
         "a vocabulary of {} tokens is too large for this text of {} sentences; "
         "the maximum is {}: pass {} {}",
         options.vocab_size, sentences.size(), *largest, options.size_option, *largest);
  }
  if (const auto needed = number_after(message, fmt::format("required_chars. {} vs ", options.vocab_size))) {
    if (options.byte_fallback) {
      fail(
          ErrorKind::kBadConfiguration,
          "a vocabulary of {} tokens is too small: it needs {}, of which 256 are the bytes of --byte-fallback and "
          "the others the characters of the text and marks. Pass a larger {}, a lower --character-coverage to "
          "leave out rare characters, or no --byte-fallback",
          options.vocab_size, *needed, options.size_option);
    }
    fail(ErrorKind::kBadConfiguration,
         "a vocabulary of {} tokens is too small: the characters of the text alone need {}. "
         "Pass a larger {}, or a lower --character-coverage to leave out rare characters",
         options.vocab_size, *needed, options.size_option);
  }
  if (message.find("!sentences_.empty()") != std::string::npos) {
    fail(ErrorKind::kBadData, "there is no text to train a tokenizer on: {} sentences, all empty or too long",
         sentences.size());
  }
  fail(ErrorKind::kBadData, "SentencePiece cannot train a vocabulary of {} tokens on {} sentences: {}",
       options.vocab_size, sentences.size(), message);
}

}  // namespace ventris::data
