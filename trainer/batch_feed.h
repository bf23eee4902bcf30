// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "data/batches.h"
#include "data/corpus.h"
#include "data/packer.h"
#include "model/batch_stage.h"
#include "model/flop_count.h"
#include "model/transformer.h"

namespace ventris {

/// A phase of training steps (backend/device/profile.h): the time of the calls of BatchFeed.
inline constexpr const char* kBatchPhase = "batch to the device";

/// The arrays of a packed batch, without its weights; the packed batch owns the memory.
HostBatch host_batch_of(const data::PackedBatch& packed);

/// Whether the batches of a set of training pairs have weights.
inline StagedWeights staged_weights_of(const data::SentencePairs& pairs) {
  return pairs.weighted() ? StagedWeights::kRows : StagedWeights::kNone;
}

/// Provides the batches of training step by step. A thread packs this rank's micro-batches ahead, into two
/// alternating stages, while the device works.
class BatchFeed {
 public:
  struct Start {
    data::DataPosition position;  // of the first batch
    int64_t step = 1;             // its number: keys dropout
  };
  /// The logical shards [begin, end) of every batch are this rank's.
  struct Share {
    int64_t begin = 0;
    int64_t end = 0;
  };
  /// A micro-batch on the device and its floating-point operations (model/flop_count.h).
  struct Piece {
    const MicroBatch& batch;
    const FlopCount& flops;
    int stage;  // 0 or 1: those of one stage have the same device addresses
  };

  /// The references must outlive the object. `capacity` must hold every shard.
  BatchFeed(Context& context, const data::Corpus& corpus, const data::BatchSource& source,
            const TransformerConfig& config, const MicroBatchCapacity& capacity, const Share& share,
            const Start& start);
  ~BatchFeed();
  BatchFeed(const BatchFeed&) = delete;
  BatchFeed& operator=(const BatchFeed&) = delete;

  /// Continues at another position, for a stage that a validation ended. Requires that all micro-batches of
  /// the previous step were taken.
  void restart(const Start& start);

  /// The batch of the next step. Requires that all micro-batches of the previous step were taken.
  data::GlobalBatch next_step();
  /// This rank's next micro-batch of the step, in the order of the shards: its copy to the device is
  /// enqueued. Valid until the next call.
  Piece next_micro_batch();

 private:
  struct Stage {
    BatchStage stage;
    FlopCount flops = {};
  };

  void work(data::DataPosition position, int64_t step);
  void stop();
  /// Waits; false if the feed ends.
  template <typename Condition>
  bool wait_to_fill(Condition&& condition);
  template <typename Condition>
  void wait_to_take(Condition&& condition);
  /// Asks the system for this rank's pairs of a batch.
  void expect_tokens(const data::GlobalBatch& batch) const;
  void fill(const data::Shard& shard, const data::GlobalBatch& batch, int64_t step);
  Stage& stage(int64_t number) { return stages_[static_cast<size_t>(number) % stages_.size()]; }

  const data::Corpus& corpus_;
  const data::BatchSource& source_;
  const TransformerConfig config_;
  const Share share_;
  std::array<Stage, 2> stages_;
  int64_t taken_ = 0;         // micro-batches, by the caller alone
  data::PackedBatch packed_;  // of the thread

  std::mutex mutex_;  // guards the following members
  std::condition_variable changed_;
  std::deque<data::GlobalBatch> steps_;  // ahead of the caller
  int64_t filled_ = 0;                   // micro-batches
  int64_t freed_ = 0;                    // micro-batches whose host memory may be overwritten
  bool ends_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace ventris
