#include "data/text/tokenizer_training.h"

#include <fmt/ranges.h>
#include <sentencepiece_trainer.h>

#include <charconv>
#include <optional>
#include <unordered_map>

#include "data/error.h"

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

}  // namespace

std::string train_tokenizer(const std::vector<std::string>& sentences, const TokenizerTraining& options) {
  if (options.identity && options.lowercase) {
    fail(ErrorKind::kBadConfiguration, "a tokenizer cannot both lowercase the text and leave it unchanged");
  }
  if (options.vocab_size < kMinVocabulary) {
    fail(ErrorKind::kBadConfiguration, "a vocabulary needs at least {} tokens, not {}", kMinVocabulary,
         options.vocab_size);
  }
  if (!(options.character_coverage > 0.0 && options.character_coverage <= 1.0)) {
    fail(ErrorKind::kBadConfiguration, "the character coverage is {}; it must be over 0 and at most 1",
         options.character_coverage);
  }
  std::unordered_map<std::string, std::string> arguments = {
      {"model_type", options.kind == TokenizerKind::kBpe ? "bpe" : "unigram"},
      {"vocab_size", fmt::format("{}", options.vocab_size)},
      {"character_coverage", fmt::format("{}", options.character_coverage)},
      {"normalization_rule_name", normalisation(options)},
      {"num_threads", fmt::format("{}", kTrainingThreads)},
      {"unk_id", "0"},
      {"bos_id", "1"},
      {"eos_id", "2"},
      {"pad_id", "-1"},
      {"minloglevel", "3"},  // no output on the standard error
  };
  if (!options.user_symbols.empty()) {
    arguments["user_defined_symbols"] = fmt::format("{}", fmt::join(options.user_symbols, ","));
  }
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
         "the maximum is {}: pass --vocab-size {}",
         options.vocab_size, sentences.size(), *largest, *largest);
  }
  if (const auto needed = number_after(message, fmt::format("required_chars. {} vs ", options.vocab_size))) {
    fail(ErrorKind::kBadConfiguration,
         "a vocabulary of {} tokens is too small: the characters of the text alone need {}. "
         "Pass a larger --vocab-size, or a lower --character-coverage to leave out rare characters",
         options.vocab_size, *needed);
  }
  if (message.find("!sentences_.empty()") != std::string::npos) {
    fail(ErrorKind::kBadData, "there is no text to train a tokenizer on: {} sentences, all empty or too long",
         sentences.size());
  }
  fail(ErrorKind::kBadData, "SentencePiece cannot train a vocabulary of {} tokens on {} sentences: {}",
       options.vocab_size, sentences.size(), message);
}

}  // namespace ventris::data
