// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "data/corpus.h"
#include "data/mix_plan.h"
#include "data/permutation.h"

namespace ventris::data {

/// A training pair of a step.
struct DrawnPair {
  int64_t pair;   // of the corpus file
  int64_t epoch;  // of its corpus: how often all of it was drawn before
  bool operator==(const DrawnPair&) const = default;
};

/// The corpus of each draw of a stage. The draws are cut into blocks of block() draws; in each of them every
/// corpus has the same count, its share rounded by the largest remainder but at least 1 of a positive share,
/// in the order of a keyed permutation. A pure function of (stage, its number, seed).
class StageOrder {
 public:
  /// Requires that the stage fits the parts (check_corpora()). `number`: of the stage in its plan.
  StageOrder(const MixStage& stage, int64_t number, const std::vector<CorpusPart>& parts, uint64_t seed);

  int64_t block() const { return block_; }
  /// Draws of each part among the first `draws` of the stage, in O(block()).
  std::vector<int64_t> counts_of(int64_t draws);
  /// The index of the part of a draw.
  size_t operator()(int64_t draw);

 private:
  /// A corpus of the stage with a positive share: its slots of a block end at `end`.
  struct Slots {
    size_t part;
    int64_t count;
    int64_t end;
  };

  std::vector<Slots> slots_;  // in the order of the stage, not of the file
  size_t parts_;
  int64_t block_;
  uint64_t key_;
  int64_t permuted_ = 0;  // the block of order_
  Permutation order_;
};

/// The order of the pairs of one corpus: each once an epoch, by a permutation that is keyed with the name of
/// the corpus, so that other corpora of the file and its place in it do not change the order.
class CorpusOrder {
 public:
  /// Requires pairs.
  CorpusOrder(const CorpusPart& part, uint64_t seed);
  /// The pair of a draw of the corpus, counted over all stages.
  DrawnPair operator()(int64_t draw);

 private:
  int64_t first_;
  int64_t pairs_;
  uint64_t key_;
  int64_t epoch_ = 0;  // of order_
  Permutation order_;
};

}  // namespace ventris::data
