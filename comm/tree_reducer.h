// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "backend/device/arena.h"
#include "backend/device/tensor.h"
#include "comm/shard_plan.h"
#include "comm/tree_sum.h"

namespace ventris {

class Communicator;
class Context;

/// Sums the gradients and losses of the logical shards of a step in one binary tree over the shards
/// (comm/tree_sum.h), so that the bits of the sums depend only on the number of shards, not on that of the
/// ranks. Every shard is computed into the same buffers, zeroed before it; partial sums are kept in a stack
/// of at most log2(shards of this rank) + 1 buffers (twice that for shares that are not aligned powers of
/// two). The sum over the ranks overlaps with the backward pass of the last shard, in buckets as in
/// GradientReducer.
class TreeReducer {
 public:
  /// `gradients` is one flat range of f32 and `loss_sums` of f64, in the memory in which `communicator` sums.
  /// Rank r of W has share_of_rank(shards, r, W). `tail` as in GradientBuckets. The references must outlive
  /// the object.
  TreeReducer(Context& context, Communicator& communicator, int64_t shards, Tensor gradients,
              Tensor loss_sums, int64_t bucket_bytes = 0, int64_t tail = 0);
  /// The same, but of the gradients each rank gets only those that it owns.
  TreeReducer(Context& context, Communicator& communicator, int64_t shards, Tensor gradients,
              Tensor loss_sums, const ShardPlan& owners);

  /// The sums of `shard`, any but the last one of this rank, are complete: stores them and zeroes the
  /// buffers.
  void set_aside(int64_t shard);
  /// The loss of this rank's last shard is complete. Once a step, before finish(), at the same place among
  /// the calls of ready() on every rank; also on a rank without shards.
  void loss_ready();
  /// Gradients at or after `begin` of this rank's last shard are complete. Falling values within a step; 0
  /// completes all, also on a rank without shards.
  void ready(int64_t begin);
  /// Waits for all sums of this step, including those of the loss; on the device, work enqueued later waits.
  /// Requires that loss_ready() and ready(0) were called; then the next step may begin.
  void finish();

 private:
  /// The segments of the ranks in a bucket (owned_segment()), and whether they go to all.
  struct Segments {
    int64_t unit;
    bool to_all;
  };
  TreeReducer(Context& context, Communicator& communicator, int64_t shards, Tensor gradients,
              Tensor loss_sums, const GradientBuckets& buckets, const Segments& segments);

  /// A flat range that is summed, in buckets from its end.
  struct Range {
    Tensor data;
    GradientBuckets buckets;
    Segments segments;
    std::vector<Tensor> stack = {};
    std::vector<Tensor> received = {};  // by bucket, elements from other ranks
  };

  /// Elements that this rank receives for a bucket.
  int64_t room_of(const Range& range, int64_t bucket) const;
  size_t bytes_of(const Range& range) const;
  void allocate(Range& range);
  void set_aside(Range& range, int64_t shard);
  void add_last_shard(Range& range, int64_t shard, TreeNode elements, const Tensor& sum);
  void start(Range& range, int64_t begin, int64_t count);

  Context& context_;
  Communicator& communicator_;
  const TreeShare share_;
  const TreeNode terms_;  // of this rank
  const TreeLayout layout_;
  Range gradients_;
  Range loss_;
  Arena memory_;  // of the stacks and of received elements
};

}  // namespace ventris
