// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/device/context.h"
#include "model/packed_pairs.h"
#include "model/search/beam_search.h"

namespace ventris {

/// Two sentences as token ids without marks, each shorter than max_positions of every model.
struct SentencePair {
  std::vector<int32_t> source;
  std::vector<int32_t> target;
};

struct TargetScoreOptions {
  int64_t batch_rows = 2048;  // rows of a side computed together, unless one sentence has more
  Marks marks;
};

/// The probability of given translations under one or several models (forced decoding). Several models make
/// an ensemble, as in BeamSearch.
class TargetScores {
 public:
  /// Throws as BeamSearch does.
  TargetScores(Context& context, std::span<const SearchModel> models, const TargetScoreOptions& options);
  ~TargetScores();
  TargetScores(const TargetScores&) = delete;
  TargetScores& operator=(const TargetScores&) = delete;

  /// For each pair log p(token | source, previous tokens) of every token of the target, then of the end mark.
  /// The result of a pair does not depend on the others.
  std::vector<std::vector<float>> score(std::span<const SentencePair> pairs);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ventris
