// SPDX-License-Identifier: Apache-2.0
#include "trainer/corpus_warnings.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "data/scores/unspaced_text.h"
#include "trainer/text.h"
#include "trainer/validation_metric.h"
#include "trainer/validation_sets.h"

namespace ventris {
namespace {

// A token that occurs less often is hardly learned.
constexpr int64_t kFewUsesOfAToken = 50;
constexpr int64_t kGoodUsesOfAToken = 100;
// A smaller vocabulary may not hold the characters of a language.
constexpr int64_t kFewTokens = 200;
// Sufficient to estimate the frequencies of tokens.
constexpr int64_t kSampledTokens = 1000000;
// Nats per token by which the other side must predict a side better.
constexpr double kClearlyBetter = 0.1;

/// Token counts of the first sentences of a side.
class TokenCounts {
 public:
  TokenCounts(const data::SentenceArray& sentences, int vocab_size)
      : counts_(static_cast<size_t>(vocab_size), 0) {
    for (int64_t i = 0; i < sentences.size() && total_ < kSampledTokens; ++i) {
      for (const int32_t token : sentences[i]) ++counts_[static_cast<size_t>(token)];
      total_ += sentences.length(i);
    }
  }

  int64_t total() const { return total_; }

  /// Mean nats of a token of `other` under these counts plus one.
  double cross_entropy(const TokenCounts& other) const {
    const double all = static_cast<double>(total_) + static_cast<double>(counts_.size());
    double sum = 0.0;
    for (size_t token = 0; token < counts_.size(); ++token) {
      if (other.counts_[token] == 0) continue;
      const double probability = (static_cast<double>(counts_[token]) + 1.0) / all;
      sum -= static_cast<double>(other.counts_[token]) * std::log(probability);
    }
    return sum / static_cast<double>(other.total_);
  }

 private:
  std::vector<int64_t> counts_;
  int64_t total_ = 0;
};

/// Asks for the sentences that TokenCounts reads.
void expect_first(const data::SentencePairs& pairs) {
  const int64_t tokens = std::min(pairs.source.total_tokens(), pairs.target.total_tokens());
  const int64_t needed = tokens <= kSampledTokens ? pairs.size() : pairs.size() * kSampledTokens / tokens;
  std::vector<int64_t> first(static_cast<size_t>(needed));
  std::iota(first.begin(), first.end(), int64_t{0});
  pairs.expect_lengths(first);
  pairs.expect_tokens(first);
}

// Including end marks, as in batches.
double tokens_of(const data::SentenceArray& side) {
  return static_cast<double>(side.total_tokens() + side.size());
}

/// For a vocabulary with which text of `tokens` tokens is written; `side` is empty if it is that of both.
void add_vocabulary_warning(const std::string& side, const data::Tokenizer& tokenizer, int64_t tokens,
                            std::vector<std::string>& warnings) {
  const int vocab_size = tokenizer.vocab_size();
  if (tokens / vocab_size >= kFewUsesOfAToken) return;
  const int64_t good = tokens / kGoodUsesOfAToken;
  warnings.push_back(fmt::format(
      "the {}vocabulary is large for the text: {} tokens for {}, so each occurs {} times on average; {}",
      side.empty() ? "" : side + " ", thousands(vocab_size), thousands(tokens), tokens / vocab_size,
      good < kFewTokens
          ? std::string("a model needs more text")
          : fmt::format("with 'ventris prepare --{}vocab-size {}' or less each occurs more often",
                        side.empty() ? "" : side + "-", good)));
}

/// For the raw text with which translations are compared.
void add_reference_warnings(const TrainOptions& options, const data::Corpus& corpus,
                            const ValidationSets& sets, std::vector<std::string>& warnings) {
  const ValidationScorer scorer(options);
  if (options.translates_validation() && scorer.words_are_phrases(sets.first_references())) {
    warnings.push_back(
        data::warning_of_phrases("the validation references", scorer.bleu().options().bleu) +
        fmt::format(" (--valid-tokenize). The best checkpoint is that of the best {} (--valid-metric)",
                    options.valid_metric));
  }
  data::CharacterCounts unknown;
  for (const ValidationSet& set : sets.all()) {
    for (int64_t i = 0; i < set.pairs.size(); ++i) {
      const auto tokens = set.pairs.target[i];
      if (std::find(tokens.begin(), tokens.end(), corpus.tokenizers().target().unknown_id()) != tokens.end())
        corpus.tokenizers().target().count_unknown(set.reference(i), unknown);
    }
  }
  if (!unknown.empty()) {
    warnings.push_back(fmt::format(
        "the validation references have characters that are not in the vocabulary, so no translation "
        "has them: {}. 'ventris prepare --character-coverage 1' includes those of the training text",
        data::listing(unknown)));
  }
}

}  // namespace

double steps_per_epoch(const TrainOptions& options, const data::SentencePairs& pairs) {
  return std::max(tokens_of(pairs.source) / static_cast<double>(options.batch_source_tokens),
                  tokens_of(pairs.target) / static_cast<double>(options.batch_target_tokens));
}

std::vector<std::string> corpus_warnings(const TrainOptions& options, const data::Corpus& corpus,
                                         const ValidationSets& sets) {
  const data::SentencePairs& train = corpus.train();
  const data::TokenizerPair& tokenizers = corpus.tokenizers();
  std::vector<std::string> warnings;
  if (const double steps = steps_per_epoch(options, train); steps < 1.0) {
    warnings.push_back(fmt::format(
        "a batch is larger than the corpus: one step is {:.3g} epochs. "
        "Smaller --batch-source-tokens and --batch-target-tokens give more steps in the same time",
        1.0 / steps));
  }
  const int64_t source_tokens = train.source.total_tokens();
  const int64_t target_tokens = train.target.total_tokens();
  if (tokenizers.shared()) {
    add_vocabulary_warning("", tokenizers.target(), source_tokens + target_tokens, warnings);
  } else {
    add_vocabulary_warning("source", tokenizers.source(), source_tokens, warnings);
    add_vocabulary_warning("target", tokenizers.target(), target_tokens, warnings);
  }
  // Tokens of two vocabularies cannot be compared.
  for (const ValidationSet& set : sets.all()) {
    if (!tokenizers.shared() || !sides_are_swapped(train, set.pairs, tokenizers.target().vocab_size()))
      continue;
    warnings.push_back(fmt::format(
        "source and target of the validation pairs{} seem to be swapped: their tokens are those of the other "
        "side of the training pairs. Check the order of the files after {}",
        sets.all().size() == 1 ? "" : " " + set.name, "--valid-sets of 'ventris prepare'"));
  }
  if (options.valid_every > 0) add_reference_warnings(options, corpus, sets, warnings);
  return warnings;
}

bool sides_are_swapped(const data::SentencePairs& train, const data::SentencePairs& valid, int vocab_size) {
  if (train.is_read_in_pieces()) expect_first(train);
  const TokenCounts train_source(train.source, vocab_size);
  const TokenCounts train_target(train.target, vocab_size);
  const TokenCounts source(valid.source, vocab_size);
  const TokenCounts target(valid.target, vocab_size);
  if (source.total() == 0 || target.total() == 0) return false;
  return train_target.cross_entropy(source) + kClearlyBetter < train_source.cross_entropy(source) &&
         train_source.cross_entropy(target) + kClearlyBetter < train_target.cross_entropy(target);
}

}  // namespace ventris
