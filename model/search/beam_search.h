// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backend/device/context.h"
#include "model/parameters.h"
#include "model/search/sampling.h"
#include "model/transformer_config.h"
#include "model/transformer_parameters.h"

namespace ventris {

struct BeamSearchOptions {
  int beam_size = 4;
  /// alpha of Wu et al. 2016: score = log p / ((5 + length) / 6)^alpha; the length counts the end mark.
  float length_penalty = 0.6F;
  int max_extra_length = 50;  // output is at most source length + this many tokens
  int max_length = 0;         // and at most this many tokens; 0: no such limit
  int min_length = 0;         // no end mark before this many tokens, except at the limits above
  int no_repeat_ngram = 0;    // no n-gram of this many tokens occurs twice in an output; 0: no limit
  /// Logits of tokens that are already in the output are divided by this if positive, otherwise multiplied by
  /// it. Probabilities and scores include it; 1 has no effect.
  float repetition_penalty = 1.0F;
  int n_best = 1;  // at most beam_size
  /// Draws n_best independent random outputs instead of searching; beam_size is unused.
  bool sample = false;
  SamplingOptions sampling = {};
  int64_t batch_rows = 0;  // maximum source rows translated together (one sentence may have more); 0: default
  int64_t batch_sentences = 0;  // and maximum sentences; 0: no limit
  int32_t source_end_id = 2;
  int32_t begin_id = 1;  // of targets, as are the next two
  int32_t end_id = 2;
  int32_t unknown_id = 0;  // never produced, except in a prefix

  bool operator==(const BeamSearchOptions&) const = default;
};

/// The default number of rows that are computed together.
int64_t rows_that_suit(Device device);

/// A sentence to translate, as token ids without marks.
struct SourceSentence {
  std::vector<int32_t> tokens;       // fewer than max_positions
  std::vector<int32_t> prefix = {};  // every output begins with it; fewer than max_positions
  uint64_t number = 0;               // in the input: a key of its random numbers
};

struct Hypothesis {
  std::vector<int32_t> tokens;   // without the marks, including the prefix
  double log_probability = 0.0;  // of the tokens after the prefix, and of the end mark
  double score = 0.0;            // of these tokens, with the length penalty
};

/// The score of a hypothesis of `tokens` tokens, without the end mark, if it ends.
double search_score(const BeamSearchOptions& options, double log_probability, int tokens);

/// A step of the search of one sentence.
struct SearchStep {
  struct Candidate {
    int hypothesis;  // that it continues: the number among those that the step before left live; 0 in the
                     // first
    int32_t token;
    double log_probability;  // of the whole
  };
  std::vector<Candidate> considered;  // best first
  size_t kept =
      0;  // of these the first; finished with the end mark, otherwise live, unless the search is done
};

/// A model of a search. The references must outlive the search.
struct SearchModel {
  const TransformerConfig& config;
  ParameterStore& store;  // values of any dtype that the backend supports
  const TransformerIds& ids;
};

/// Translates with beam search (section 6.1 of the paper). At each step the beam_size best continuations are
/// kept; those that end are finished hypotheses. A sentence is complete when no live hypothesis can enter its
/// n_best finished ones, or at its maximum length, where live hypotheses are ended. The result for a sentence
/// does not depend on the others (on CUDA except for rounding, as products depend on their shape).
///
/// Several models make an ensemble: the probability of a token is the mean of theirs. They share one
/// vocabulary; the smallest max_positions is the limit.
class BeamSearch {
 public:
  /// Throws Error(kBadConfiguration) for an option out of range or models of unequal vocabularies or dtypes.
  BeamSearch(Context& context, std::span<const SearchModel> models, const BeamSearchOptions& options);
  BeamSearch(Context& context, const TransformerConfig& config, ParameterStore& store,
             const TransformerIds& ids, const BeamSearchOptions& options);
  ~BeamSearch();
  BeamSearch(const BeamSearch&) = delete;
  BeamSearch& operator=(const BeamSearch&) = delete;

  /// The caller must truncate sentences that are too long. Returns n_best hypotheses a sentence, best first,
  /// in the order of the sources. An empty source gives one empty hypothesis.
  std::vector<std::vector<Hypothesis>> translate(std::span<const SourceSentence> sources);
  /// Without prefixes; the number of a sentence is its index.
  std::vector<std::vector<Hypothesis>> translate(std::span<const std::vector<int32_t>> sources);

  /// Hands each step to `watcher`, with the number of the sentence in the sources. Changes no result.
  void watch(std::function<void(size_t source, const SearchStep& step)> watcher);

  const BeamSearchOptions& options() const;
  Device device() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ventris
