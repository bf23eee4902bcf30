// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "data/batches.h"

namespace ventris::data {

class Corpus;

struct SampleOptions {
  double source_alpha = 0.0;  // of data/text/subword_sampler.h; 0: the tokens of the corpus
  double target_alpha = 0.0;
  uint64_t seed = 1;
  int64_t max_length = 0;  // see SampledText::sample()
};

/// Subword regularisation: other token ids for the training pairs of a corpus in each of its epochs, from the
/// text that it keeps. Those of a pair are a function of (corpus, options, pair, epoch, maxima), whatever the
/// ranks, threads and order of calls.
class SampledText {
 public:
  /// The corpus must outlive the object. Throws DataError kBadConfiguration if it keeps no text, or has a
  /// tokenizer whose segmentations cannot be sampled.
  SampledText(const Corpus& corpus, const SampleOptions& options);
  ~SampledText();
  SampledText(const SampledText&) = delete;
  SampledText& operator=(const SampledText&) = delete;

  /// Tokens of a side without marks.
  struct MaxLengths {
    int64_t source;
    int64_t target;
  };
  /// Sets both sides. A side that would be longer than its maximum or that of the options has the tokens of
  /// the corpus file. Thread-safe.
  void sample(const DrawnPair& drawn, const MaxLengths& max, PairTokens& tokens) const;
  /// Tells the system that the text of these pairs will be sampled soon.
  void expect(std::span<const int64_t> pairs) const;

 private:
  struct Side;
  const Corpus& corpus_;
  const SampleOptions options_;
  const std::unique_ptr<Side> source_;
  const std::unique_ptr<Side> target_;
};

}  // namespace ventris::data
