// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "backend/device/tensor.h"
#include "comm/shard_plan.h"
#include "model/parameters.h"

namespace ventris {

class Communicator;
class Context;

/// Communicator::bucket_bytes() of the communicator that sums the gradients of a device.
int64_t bucket_bytes_on(Device device);
/// Elements at the begin of the gradients that are summed over the ranks in one bucket (GradientBuckets): the
/// embeddings on a GPU; none on CPUs, where one bucket is added while another is on its way.
int64_t tail_of_sums(const ParameterStore& store, Device device);

/// The elements of what a store trains that this rank updates: all, or with --shard-optimizer those
/// that it owns (comm/shard_plan.h). The state of these elements is packed: one range after the other.
class OptimizerShard {
 public:
  /// The store must be allocated, and it and the context must outlive the object. One of `ranks` ranks.
  OptimizerShard(Context& context, ParameterStore& store, int rank, int ranks);
  /// The owners of the elements of a store, which need not be allocated, on a device.
  static ShardPlan plan_of(const ParameterStore& store, Device device, int ranks);

  /// A range of elements, and where its state begins.
  struct Range {
    TreeNode elements;
    int64_t packed;
  };
  const std::vector<Range>& ranges() const { return ranges_; }
  int64_t size() const { return size_; }
  bool is_part() const { return plan_.ranks() > 1; }
  const ShardPlan& plan() const { return plan_; }

  /// Partial sums of sum_of_squares().
  int64_t partial_sums() const;
  /// Enqueues *result = sum of squares of all gradients, of which this rank has the sums in its ranges; the
  /// bits do not depend on the ranks. `partial` is [1, partial_sums()] f64, overwritten.
  void sum_of_squares(Communicator& sums, Tensor partial, double* result) const;
  /// Enqueues the exchange of the parameters: every rank gets those that operations read, from their owners.
  /// With bf16 these are the rounded copies, and the masters of vectors.
  void share_parameters(Communicator& sums) const;
  /// Enqueues the exchange of all masters.
  void share_masters(Communicator& sums) const;

  /// Gathers the packed state of all ranks in `whole`, [1, trained_size] f32 in host memory of rank 0, empty
  /// on the others. All ranks must call it.
  void collect(Communicator& control, ConstTensor packed, Tensor whole) const;
  /// The opposite.
  void distribute(Communicator& control, ConstTensor whole, Tensor packed) const;

 private:
  /// Elements of one rank.
  struct Owned {
    int owner;
    TreeNode elements;
  };

  void share(Communicator& sums, bool compute_copy) const;

  Context& context_;
  ParameterStore& store_;
  int rank_;
  ShardPlan plan_;
  std::vector<Range> ranges_;
  int64_t size_ = 0;
  std::vector<Owned> left_over_;  // in buckets that are not in equal segments
  std::vector<Owned> vectors_;    // that operations read as masters, in order
};

}  // namespace ventris
