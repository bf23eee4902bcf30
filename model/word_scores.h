#pragma once

#include <cstdint>
#include <vector>

#include "backend/arena.h"
#include "backend/context.h"
#include "model/beam_search.h"
#include "model/incremental_decoder.h"

namespace ventris {

/// Scores the words that may follow each hypothesis, on the device, and brings the best of them to the host.
class WordScores {
 public:
  /// The references outlive the object.
  WordScores(Context& context, int64_t vocab_size, const BeamSearchOptions& options);

  /// Scores `rows` hypotheses of the last step of the decoder; with `want_end` the end mark of each, too.
  void compute(IncrementalDecoder& decoder, int64_t rows, bool want_end);

  /// The beam_size best words of hypothesis `row`, best first, and their log-probabilities.
  const int32_t* words(int64_t row) const { return scores_.words + row * beam_size_; }
  const float* log_probabilities(int64_t row) const { return scores_.values + row * beam_size_; }
  /// Of the end mark; requires want_end.
  float end_log_probability(int64_t row) const { return scores_.ends[row]; }

 private:
  /// Pieces of one block, so that one copy brings all.
  struct Scores {
    float* values;   // [rows, beam_size]
    int32_t* words;  // [rows, beam_size]
    float* ends;     // [rows]
  };
  size_t bytes(int64_t rows) const;
  Scores pieces(void* block, int64_t rows) const;
  void reserve(int64_t rows);

  Context& context_;
  const int64_t vocab_size_;
  const int64_t beam_size_;
  Arena lists_;
  int32_t* banned_;      // words that are never produced, -1 at the end
  int32_t* end_labels_;  // [IncrementalDecoder::kLogitRows]
  int64_t capacity_ = 0;
  Arena memory_;
  void* block_ = nullptr;  // on the device
  std::vector<char> copy_;
  Scores scores_ = {};  // in copy_
};

}  // namespace ventris
