// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>

#include "backend/device/step_graph.h"
#include "backend/device/stopwatch.h"
#include "comm/communicator.h"
#include "comm/gradient_reducer.h"
#include "comm/tree_reducer.h"
#include "model/flop_count.h"
#include "model/transformer.h"
#include "trainer/batch_feed.h"
#include "trainer/optimizer.h"
#include "trainer/train_options.h"

namespace ventris {

/// The device's work of a training step: forward and backward of this rank's micro-batches, the sums over the
/// ranks, and the update. The host enqueues it and reads nothing back; on CUDA it is captured once as a graph
/// for each stage of a batch and replayed, including the sums over the ranks.
class TrainingStep {
 public:
  /// `shards` are those of a global batch. The references must outlive the object. All ranks must create it.
  TrainingStep(Context& context, Communicator& communicator, const TrainOptions& options, int shards,
               ParameterStore& store, Transformer& transformer, Optimizer& optimizer);
  /// Aborts sums over the ranks that are pending after an exception.
  ~TrainingStep();
  TrainingStep(const TrainingStep&) = delete;
  TrainingStep& operator=(const TrainingStep&) = delete;

  /// Rank r of W computes the shards [r K / W, (r + 1) K / W) of every batch.
  BatchFeed::Share share() const;
  struct Enqueued {
    double flops = 0.0;         // floating-point operations of this rank
    int64_t micro_batches = 0;  // of this rank
    bool abandoned = false;     // on this rank
  };
  /// Enqueues a step with the next micro-batches of the feed. Waits only if the device is two micro-batches
  /// behind (BatchFeed::next_micro_batch). After each, reports the number of this rank's that are enqueued.
  /// If `stops` is true before a micro-batch on some rank, the step is abandoned: this rank skips the
  /// remaining micro-batches, takes part in the sums, and makes the loss not finite, so that the step updates
  /// nothing on any rank (Optimizer::update). The caller must notify the other ranks before they continue; no
  /// step follows. A step that the profile measures is completed.
  Enqueued enqueue(BatchFeed& feed, double learning_rate, const std::function<bool()>& stops,
                   const std::function<void(int64_t done, int64_t of)>& enqueued);
  /// Throws Error(kUnavailable) if a sum over the ranks has failed: later results of the device are invalid.
  void check_sums();
  /// With --shard-optimizer: gives every rank the masters of all parameters, from their owners; waits for
  /// the work enqueued before. All ranks must call it.
  void share_masters();
  /// Device time of this rank's micro-batches in the last step, in seconds, without waits for other ranks.
  /// Blocks until the device has computed them. 0 on the CPU.
  double own_seconds() { return own_work_.seconds(); }
  /// For the steps that the profile measured.
  const FlopCount& measured_flops() const { return measured_flops_; }

 private:
  /// The device's work on a micro-batch of one shape.
  struct ShapedGraph {
    MicroBatchCapacity shape;
    std::optional<StepGraph> graph;
  };

  Communicator& sums() { return device_communicator_ ? *device_communicator_ : communicator_; }
  BatchFeed::Piece next_micro_batch(BatchFeed& feed);
  void run(const BatchFeed::Piece& piece, bool last, const std::function<void()>& work);
  StepGraph& graph_of(const BatchFeed::Piece& piece, bool last);
  /// The loss is that of all shards of this rank: its sum over the ranks overlaps with backward, so that none
  /// of the few, late sums of a step is left for its end.
  void reduce_loss();
  /// Elements of the gradients from `begin` on are those of all shards of this rank.
  void reduce(int64_t begin);
  void finish();
  void spoil_loss();

  Context& context_;
  Communicator& communicator_;
  const int shards_;
  const uint64_t seed_;
  const bool captures_;
  ParameterStore& store_;
  Transformer& transformer_;
  Optimizer& optimizer_;
  Stopwatch own_work_;                                 // outlives graphs and sums in flight
  std::unique_ptr<Communicator> device_communicator_;  // of the sums, if the device has its own
  std::optional<GradientReducer> reducer_;             // of --reduction fast
  std::optional<TreeReducer> tree_reducer_;            // of --reduction reproducible
  std::array<std::array<ShapedGraph, 2>, 2> graphs_;   // by stage, and whether it is the last of the step
  FlopCount measured_flops_;
};

}  // namespace ventris
