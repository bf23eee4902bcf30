// SPDX-License-Identifier: Apache-2.0
#include "data/sampled_text.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "data/corpus.h"
#include "data/error.h"
#include "data/text/keyed_random.h"
#include "data/text/subword_sampler.h"

namespace ventris::data {

struct SampledText::Side {
  Side(const Tokenizer& tokenizer, double alpha) : sampler(tokenizer, alpha) {}
  std::mutex mutex;
  SubwordSampler sampler;
  std::string text;  // the file may change while it is read
};

namespace {

uint64_t key_of_side(uint64_t seed, const DrawnPair& drawn, uint64_t side) {
  uint64_t key = split_mix(seed ^ side);
  key = split_mix(key ^ static_cast<uint64_t>(drawn.epoch));
  return split_mix(key ^ static_cast<uint64_t>(drawn.pair));
}

// In the place of those of other random numbers of a seed.
constexpr uint64_t kSourceSide = 0x736f757263650000ull;
constexpr uint64_t kTargetSide = 0x7461726765740000ull;

}  // namespace

SampledText::SampledText(const Corpus& corpus, const SampleOptions& options)
    : corpus_(corpus),
      options_(options),
      source_(options.source_alpha > 0.0
                  ? std::make_unique<Side>(corpus.tokenizers().source(), options.source_alpha)
                  : nullptr),
      target_(options.target_alpha > 0.0
                  ? std::make_unique<Side>(corpus.tokenizers().target(), options.target_alpha)
                  : nullptr) {
  if ((source_ || target_) && !corpus.has_text()) {
    fail(ErrorKind::kBadConfiguration,
         "{} keeps no text, which {} needs to draw other tokens for it; make the corpus again with 'ventris "
         "prepare --keep-text'",
         corpus.path(), source_ ? "--sample-source" : "--sample-target");
  }
}

SampledText::~SampledText() = default;

void SampledText::expect(std::span<const int64_t> pairs) const {
  corpus_.expect_text(pairs);
}

void SampledText::sample(const DrawnPair& drawn, const MaxLengths& max, PairTokens& tokens) const {
  const auto set = [&](Side* side, uint64_t of_side, const SentenceArray& plain, auto&& text, int64_t most,
                       std::vector<int32_t>& ids) {
    if (side != nullptr) {
      const std::lock_guard lock(side->mutex);
      side->text = text();
      side->sampler.sample(side->text, key_of_side(options_.seed, drawn, of_side), ids);
      if (static_cast<int64_t>(ids.size()) <= std::min(most, options_.max_length)) return;
    }
    const TokenView view = plain[drawn.pair];
    ids.assign(view.begin(), view.end());
  };
  const SentencePairs& pairs = corpus_.train();
  set(
      source_.get(), kSourceSide, pairs.source, [&] { return corpus_.train_source_text(drawn.pair); },
      max.source, tokens.source);
  set(
      target_.get(), kTargetSide, pairs.target, [&] { return corpus_.train_target_text(drawn.pair); },
      max.target, tokens.target);
}

}  // namespace ventris::data
