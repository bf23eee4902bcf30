// SPDX-License-Identifier: Apache-2.0
#include "data/prepare_tokenizer.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "data/error.h"
#include "data/pair_block.h"
#include "data/pair_reader.h"
#include "data/prepare_child.h"
#include "data/text/sentencepiece_format.h"

namespace ventris::data {

namespace {

constexpr int64_t kPairsBetweenReports = 1 << 14;

/// The tokenizer's training text: its sides of evenly spaced pairs. When the sample is full, every second
/// pair is removed and the distance doubles, so that one pass is enough, and for a long text the sample has
/// at least half of the allowed sentences.
class Sample {
 public:
  Sample(int64_t max_sentences, Sides sides)
      : sides_(sides),
        of_a_pair_(sides == Sides::kBoth ? 2 : 1),
        max_sentences_(of_a_pair_ * std::max<size_t>(1, static_cast<size_t>(max_sentences) / of_a_pair_)) {}

  void take(std::string_view source, std::string_view target) {
    if (index_++ % distance_ != 0) return;
    if (sides_ != Sides::kTarget) sentences_.emplace_back(source);
    if (sides_ != Sides::kSource) sentences_.emplace_back(target);
    if (sentences_.size() <= max_sentences_) return;
    size_t kept = 0;
    for (size_t pair = 0; pair < sentences_.size(); pair += 2 * of_a_pair_) {
      for (size_t side = 0; side < of_a_pair_; ++side) sentences_[kept++].swap(sentences_[pair + side]);
    }
    sentences_.resize(kept);
    distance_ *= 2;
  }
  const std::vector<std::string>& sentences() const { return sentences_; }

 private:
  Sides sides_;
  size_t of_a_pair_;  // sentences
  size_t max_sentences_;
  std::vector<std::string> sentences_;
  int64_t distance_ = 1;
  int64_t index_ = 0;
};

Sample sample_sentences(const PrepareOptions& options, Sides sides, const ProgressCall& progress) {
  Sample sample(options.tokenizer.max_sentences, sides);
  PrepareProgress report{.phase = "reading", .pairs = 0, .bytes = 0, .all_bytes = 0};
  for (const TrainingCorpus& corpus : options.corpora) {
    report.all_bytes += bytes_of(corpus.files);
  }
  RawPair pair;
  std::string source_scratch;
  std::string target_scratch;
  int64_t pairs_before = 0;
  int64_t bytes_before = 0;
  for (const TrainingCorpus& corpus : options.corpora) {
    PairReader reader(corpus.files, corpus.weights);
    while (reader.next_files()) {
      const PairFiles& files = corpus.files[reader.file()];
      const std::string source_path = files.source;
      const std::string target_path = files.target.empty() ? files.source : files.target;
      while (reader.next(pair)) {
        // Every line is checked here, so that bad text is found before the tokenizer is trained.
        const CleanLine source = clean_line(pair.source, source_scratch, source_path, reader.line_number());
        const CleanLine target = clean_line(pair.target, target_scratch, target_path, reader.line_number());
        sample.take(source.text, target.text);
        if (reader.pairs() % kPairsBetweenReports != 0) continue;
        report.pairs = pairs_before + reader.pairs();
        report.bytes = bytes_before + reader.bytes_read();
        progress(report);
      }
    }
    pairs_before += reader.pairs();
    bytes_before += reader.bytes_read();
  }
  return sample;
}

/// Whether the tokenizer has the tag as one token, with the space before it or after a token of that space.
bool has_tag(const Tokenizer& tokenizer, const std::string& tag) {
  std::vector<int32_t> ids = tokenizer.encode(tag);
  if (ids.size() == 2 && tokenizer.piece(ids[0]) == kSpaceMark) ids.erase(ids.begin());
  if (ids.size() != 1 || ids[0] == tokenizer.unknown_id()) return false;
  const std::vector<int32_t> before_text = tokenizer.encode(tag + " a");
  return std::find(before_text.begin(), before_text.end(), ids[0]) != before_text.end();
}

std::string advice_on_tag(const std::string& tag, const PrepareOptions& options) {
  if (!options.tokenizer_model.empty()) {
    return fmt::format(
        "Train it with {} as a user-defined symbol (--user-symbols), take a tag that is a piece of it, or "
        "leave out the option that gives it",
        tag);
  }
  return "Take one that the tokenizer's normalisation leaves as it is, such as <bt>";
}

struct TrainedModel {
  std::string model;
  int64_t sentences = 0;
};

const char* training_phase(Sides sides) {
  switch (sides) {
    case Sides::kSource:
      return "training the tokenizer of sources";
    case Sides::kTarget:
      return "training the tokenizer of targets";
    case Sides::kBoth:
      break;
  }
  return "training the tokenizer";
}

/// The model of train_tokenizer(); an error names the side if there are two.
std::string train_on(const Sample& sample, const TokenizerTraining& training, Sides sides) {
  try {
    return train_tokenizer(sample.sentences(), training);
  } catch (const DataError& error) {
    if (sides == Sides::kBoth) throw;
    throw DataError(error.kind(),
                    fmt::format("{}: {}", sides == Sides::kSource ? "sources" : "targets", error.what()));
  }
}

TrainedModel train_in_child(const PrepareOptions& options, Sides sides) {
  std::string answer = run_in_child(
      [&](const ProgressCall& progress) {
        const Sample sample = sample_sentences(options, sides, progress);
        const auto sentences = static_cast<int64_t>(sample.sentences().size());
        const int64_t pairs = sides == Sides::kBoth ? sentences / 2 : sentences;
        progress({.phase = training_phase(sides), .pairs = pairs, .bytes = 0, .all_bytes = 0});
        std::string result(sizeof(sentences), '\0');
        std::memcpy(result.data(), &sentences, sizeof(sentences));
        return result + train_on(sample, training_of(options, sides), sides);
      },
      options.progress,
      "SentencePiece cannot train a tokenizer on this text, for the reason above. Check that the text has "
      "characters other than blanks, and that --tokenizer-sentences is large enough. Nothing was written");
  int64_t sentences = 0;
  std::memcpy(&sentences, answer.data(), sizeof(sentences));
  answer.erase(0, sizeof(sentences));
  return {std::move(answer), sentences};
}

}  // namespace

TokenizerTraining training_of(const PrepareOptions& options, Sides sides) {
  TokenizerTraining training = options.tokenizer;
  if (sides == Sides::kSource) training.vocab_size = options.source_vocab_size;
  if (sides != Sides::kBoth) {
    training.size_option = sides == Sides::kSource ? "--source-vocab-size" : "--target-vocab-size";
  }
  const std::string mark(training.no_dummy_prefix ? "" : kSpaceMark);
  std::set<std::string> pieces;
  for (const TrainingCorpus& corpus : options.corpora) {
    if (sides != Sides::kTarget && !corpus.source_tag.empty()) pieces.insert(mark + corpus.source_tag);
    if (sides != Sides::kSource && !corpus.target_tag.empty()) pieces.insert(mark + corpus.target_tag);
  }
  training.user_symbols.insert(training.user_symbols.end(), pieces.begin(), pieces.end());
  return training;
}

PreparedTokenizers make_tokenizers(const PrepareOptions& options) {
  if (!options.tokenizer_models.target.empty()) {
    return {TokenizerPair(options.tokenizer_models, options.tokenizer_model), 0, 0};
  }
  if (!options.tokenizer_model.empty()) {
    Tokenizer given = Tokenizer::from_file_of_model_or_words(options.tokenizer_model);
    if (options.source_tokenizer_model.empty()) return {TokenizerPair(std::move(given)), 0, 0};
    return {{Tokenizer::from_file_of_model_or_words(options.source_tokenizer_model), std::move(given)}, 0, 0};
  }
  const bool shared = options.source_vocab_size == 0;
  TrainedModel source;
  if (!shared) source = train_in_child(options, Sides::kSource);
  TrainedModel target = train_in_child(options, shared ? Sides::kBoth : Sides::kTarget);
  return {TokenizerPair({.target = std::move(target.model), .source = std::move(source.model)},
                        "the tokenizer trained on the text"),
          target.sentences, source.sentences};
}

void check_tags(const PrepareOptions& options, const TokenizerPair& tokenizers) {
  const auto check = [&](const std::string& tag, const TrainingCorpus& corpus, const Tokenizer& tokenizer,
                         const char* of_side) {
    if (tag.empty() || has_tag(tokenizer, tag)) return;
    const std::vector<int32_t> ids = tokenizer.encode(tag);
    fail(ErrorKind::kBadConfiguration, "the tag '{}' of {} is not one token of the tokenizer{}, but {}. {}",
         tag, corpus.name, tokenizers.shared() ? "" : of_side,
         ids.size() == 1 ? std::string("unknown to it") : fmt::format("{} tokens", ids.size()),
         advice_on_tag(tag, options));
  };
  for (const TrainingCorpus& corpus : options.corpora) {
    check(corpus.source_tag, corpus, tokenizers.source(), " of sources");
    check(corpus.target_tag, corpus, tokenizers.target(), " of targets");
  }
}

int64_t bytes_of(const std::vector<PairFiles>& files) {
  int64_t bytes = 0;
  const auto add = [&](const std::string& path) {
    std::error_code error;
    const auto size = std::filesystem::file_size(path, error);
    if (!error) bytes += static_cast<int64_t>(size);
  };
  for (const PairFiles& pair : files) {
    add(pair.source);
    if (!pair.target.empty()) add(pair.target);
  }
  return bytes;
}

}  // namespace ventris::data
