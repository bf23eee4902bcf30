// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "data/corpus.h"
#include "data/mix_order.h"
#include "data/mix_plan.h"

namespace ventris::data {

/// The position in a plan of stages, between two steps.
struct MixPosition {
  int64_t stage = 0;                 // the number of stages after the last
  int64_t steps = 0;                 // of the stage so far
  int64_t draws = 0;                 // pairs drawn in the stage
  std::vector<int64_t> before = {};  // of each corpus before the stage; empty: none of any
  bool operator==(const MixPosition&) const = default;
};

/// The position of training in the data: pairs consumed of the permutation of an epoch. With a plan of stages
/// epoch and index count the pairs drawn of any corpus, in corpora of the file. Stored in checkpoints.
struct DataPosition {
  int64_t epoch = 0;
  int64_t index = 0;     // in [0, pairs)
  MixPosition mix = {};  // with a plan of stages
  bool operator==(const DataPosition&) const = default;
};

class SampledText;

struct BatchOptions {
  int64_t source_tokens = 25000;  // of a global batch, including end marks; target tokens the same
  int64_t target_tokens = 25000;
  int shards = 1;  // K: the global batch is cut into K logical shards of 1/K of these tokens each
  uint64_t seed = 1;
  MixPlan mix = {};                                 // without stages: all corpora are one
  std::shared_ptr<const SampledText> sampled = {};  // tokens of the pairs; null: those of the corpus file
};

/// The token ids of both sides of a pair, without marks.
struct PairTokens {
  std::vector<int32_t> source;
  std::vector<int32_t> target;
};

/// The pairs of one logical shard and the index in the global batch of its first rows.
struct Shard {
  std::vector<DrawnPair> pairs;     // in batch order
  std::vector<PairTokens> sampled;  // of each pair, with BatchOptions::sampled; otherwise empty
  int64_t source_row_base = 0;      // rows count one end mark a sentence
  int64_t target_row_base = 0;
  int64_t source_rows = 0;
  int64_t target_rows = 0;
};

struct GlobalBatch {
  std::vector<Shard> shards;  // K of them; one may be empty only if a pair did not fit
  int64_t source_tokens = 0;
  int64_t target_tokens = 0;  // of all shards: the divisor of the loss
  int64_t pairs = 0;
  int64_t shard_source_capacity = 0;  // rows for which the shards of this batch had room
  int64_t shard_target_capacity = 0;
  DataPosition next;  // position after this batch
};

/// Yields global batches: pairs in the order of the epoch's permutation fill shard 0, then shard 1, ... A
/// pair that does not fit starts the next shard. Every pair is seen once an epoch; a batch may contain the
/// end of one epoch and the start of the next. With a plan the pairs of a batch are those of one stage
/// (StageOrder), each corpus in an order of its own (CorpusOrder). A pure function of (corpus, options,
/// position, step), independent of ranks and threads.
class BatchSource {
 public:
  /// Throws DataError kBadConfiguration if the longest pair does not fit in a shard (naming the lengths and
  /// the option to change), or the set is empty. A plan must fit the parts (check_corpora()).
  BatchSource(const SentencePairs& pairs, const std::vector<CorpusPart>& parts, const BatchOptions& options);

  /// Requires a position that has not ended(). The next position is in the next stage if this batch ends its
  /// stage by steps or epochs.
  GlobalBatch at(const DataPosition& position) const;

  const MixPlan& mix() const { return options_.mix; }
  /// Whether the last stage of the plan has ended.
  bool ended(const DataPosition& position) const;
  /// The begin of the next stage.
  DataPosition after_stage(const DataPosition& position) const;
  /// With a plan: how many pairs of each corpus were drawn so far.
  std::vector<int64_t> drawn(const DataPosition& position) const;
  /// Whether tokens of pairs are drawn anew in each epoch.
  bool samples() const { return options_.sampled != nullptr; }
  int64_t shard_source_capacity() const { return capacity_.source; }
  int64_t shard_target_capacity() const { return capacity_.target; }

 private:
  void check(const DataPosition& position) const;
  const MixStage& stage_of(const DataPosition& position) const;
  bool ends_stage(const DataPosition& position) const;
  /// Asks for the lengths of about the pairs of the batch that begins with these draws.
  struct Rows {
    int64_t source;
    int64_t target;
  };
  template <typename Draws>
  void expect_lengths(Draws&& draws, const Rows& capacity) const;
  template <typename Draws>
  void fill(GlobalBatch& batch, Draws&& draws) const;
  /// Of a pair in a shard of that capacity, whose tokens are put into `sampled` if they are.
  Rows rows_of(const DrawnPair& drawn, const Rows& capacity, PairTokens& sampled) const;

  const SentencePairs& pairs_;
  std::vector<CorpusPart> parts_;
  BatchOptions options_;
  Rows capacity_;  // of a shard
};

}  // namespace ventris::data
