// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/device/context.h"
#include "trainer/inference/model_set.h"

namespace ventris {

class Communicator;

/// The scores of a given translation.
struct ScoredPair {
  std::vector<int32_t> target;           // its tokens without marks, as scored
  std::vector<float> log_probabilities;  // of each token, then of the end mark
  size_t source_tokens = 0;              // before a sentence was truncated
  size_t target_tokens = 0;

  double log_probability() const;  // the sum
  /// The number of scored tokens, with the end mark.
  size_t length() const { return log_probabilities.size(); }
};

/// Scores line i of `targets` as a translation of line i of `sources`, on all ranks, which must call it with
/// the same arguments. Sentences longer than models.longest_sentence() are truncated. At most `batch_rows`
/// tokens of a side (0: default of the device) and `batch_sentences` sentences (0: any number) are computed
/// together; results depend neither on that nor on the number of ranks.
std::vector<ScoredPair> score_text(Context& context, Communicator& communicator, const ModelSet& models,
                                   const std::vector<std::string>& sources,
                                   const std::vector<std::string>& targets, int64_t batch_rows,
                                   int64_t batch_sentences = 0);

}  // namespace ventris
