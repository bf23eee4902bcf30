#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/context.h"
#include "model/parameters.h"
#include "model/transformer_config.h"
#include "model/transformer_parameters.h"

namespace ventris {

struct BeamSearchOptions {
  int beam_size = 4;
  /// alpha of Wu et al. 2016: score = log p / ((5 + length) / 6)^alpha; the length counts the end mark.
  float length_penalty = 0.6F;
  int max_extra_length = 50;  // output is at most source length + this many words
  int n_best = 1;             // at most beam_size
  int64_t batch_rows = 0;     // source rows translated together; 0: as many as suit the device
  int32_t begin_id = 1;
  int32_t end_id = 2;
  int32_t unknown_id = 0;  // never produced
};

struct Hypothesis {
  std::vector<int32_t> words;  // without the marks
  double log_probability = 0.0;
  double score = 0.0;  // with the length penalty
};

/// Translates with beam search (section 6.1 of the paper). At each step the beam_size best continuations
/// stay; those that end are finished hypotheses. A sentence is done when no live hypothesis can get into its
/// n_best finished ones any more, or at its maximum length, where live hypotheses are ended. The result for a
/// sentence does not depend on the others.
class BeamSearch {
 public:
  /// The references outlive the object. `store` holds values of any dtype that the backend computes.
  BeamSearch(Context& context, const TransformerConfig& config, ParameterStore& store,
             const TransformerIds& ids, const BeamSearchOptions& options);
  ~BeamSearch();
  BeamSearch(const BeamSearch&) = delete;
  BeamSearch& operator=(const BeamSearch&) = delete;

  /// `sources`: sentences as word ids without marks, each shorter than max_positions (the caller cuts).
  /// Returns n_best hypotheses a sentence, best first, in the order of the sources. An empty source gives one
  /// empty hypothesis.
  std::vector<std::vector<Hypothesis>> translate(std::span<const std::vector<int32_t>> sources);

  /// Source rows translated together: those of the options, or what suits the device.
  int64_t batch_rows() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ventris
