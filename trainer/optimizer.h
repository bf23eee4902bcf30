// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "backend/device/arena.h"
#include "backend/device/context.h"
#include "backend/device/flat_range.h"
#include "backend/device/transfer.h"
#include "backend/ops/adam.h"
#include "backend/ops/not_finite.h"
#include "backend/ops/update_plan.h"
#include "model/parameters.h"
#include "trainer/checkpoint/training_state.h"
#include "trainer/optimizer_shard.h"
#include "trainer/train_options.h"

namespace ventris {

/// The report of the device for a step.
struct StepReport {
  StepOutcome outcome;
  NotFinitePlaces not_finite;  // in what is trained; of a skipped step
};

/// Adam (section 5.3 of the paper) over what a store trains (ParameterStore::trained_values), with its
/// moments, after weight decay, if any. Skipping of a step, clipping of its gradient and the number of the
/// update are computed on the device, so that the host enqueues the next step without waiting. With
/// --shard-optimizer each rank has the moments and the average of its own elements alone, and updates these
/// (trainer/optimizer_shard.h).
class Optimizer {
 public:
  /// The references must outlive the object. The moments start at zero, after no update. For rank `rank` of
  /// `ranks`.
  Optimizer(Context& context, ParameterStore& store, const TrainOptions& options, int rank = 0,
            int ranks = 1);
  /// Device memory for a store that trains `trained_size` elements, of which this rank updates `share`:
  /// moments and average, by the options.
  static size_t planned_bytes(int64_t trained_size, int64_t share, DType master, const TrainOptions& options);

  /// The moments are those after that many updates.
  void set_updates(int64_t updates);
  /// Enqueues the learning rate of the updates that follow. Waits for the device if it has not read the rate
  /// before the last one.
  void set_learning_rate(double learning_rate);
  /// Enqueues one update with the gradients of the store, which are those of the global batch, and clears
  /// them. `loss_sums`, [1, 2] f64 on the device, are also those of the global batch, and cleared. A step
  /// with NaN or Inf in the loss or the gradients does not change the parameters, the moments and the number
  /// of updates. Always enqueues the same work, so that it may be part of a graph
  /// (backend/device/step_graph.h). If the ranks share the work, `sums` exchanges norm and parameters, and
  /// the gradients need be complete only in the elements of this rank.
  void update(Tensor loss_sums, Communicator& sums);
  /// Enqueues the copy of the report of the last update().
  void receive_report(HostBuffer& to) { to.receive(report_, sizeof(StepReport)); }
  /// With --ema, sets the average to the current parameters.
  void start_average();
  /// Swaps the parameters with their average, on the elements of this rank; requires an average.
  void exchange_with_average();
  bool has_average() const { return ema_ > 0.0; }

  /// Moments and average; average() is empty without --ema. [1, shard().size()] master, packed.
  OptimizerState state() { return {.m = m_, .v = v_, .average = average_}; }
  const OptimizerShard& shard() const { return shard_; }

 private:
  Context& context_;
  ParameterStore& store_;
  const float beta1_;
  const float beta2_;
  const float epsilon_;
  const double clip_norm_;
  const double weight_decay_;
  const double ema_;
  const OptimizerShard shard_;
  const std::vector<FlatRange> decayed_;  // empty without weight decay
  Arena memory_;
  Tensor m_;
  Tensor v_;
  Tensor average_;
  // On the device:
  Tensor partial_squares_;  // [1, shard_.partial_sums()] f64, or empty if this rank updates all
  double* sum_of_squares_;
  int64_t* updates_;
  float* learning_rate_;
  AdamScalars* scalars_;
  StepReport* report_;
  std::array<HostBuffer, 2> learning_rates_;  // pending, alternating
  size_t turn_ = 0;
};

/// The state of all elements, on rank 0: that of the optimizer, or, if the ranks have parts of it, memory of
/// the host for the parts of all.
class WholeOptimizerState {
 public:
  WholeOptimizerState(const Communicator& communicator, const ParameterStore& store, Optimizer& optimizer);
  const OptimizerState& get() const { return state_; }
  /// Both give every rank its part, from rank 0; the second does nothing without an average. All ranks must
  /// call them.
  void distribute_moments(Context& context, Communicator& communicator, Optimizer& optimizer) const;
  void distribute_average(Context& context, Communicator& communicator, Optimizer& optimizer) const;

 private:
  std::vector<float> m_, v_, average_;
  OptimizerState state_;
};

/// Those of a skipped step, whichever rank has them: a rank that owns a part of the gradients has the sums of
/// that part alone, and the masters. All ranks must call it.
NotFinitePlaces places_on_all_ranks(Communicator& control, NotFinitePlaces places);

/// The location of the NaN or Inf of a skipped step, as text: the first parameter that has one, otherwise the
/// last parameter whose gradient does, otherwise "the loss".
std::string describe_not_finite(const ParameterStore& store, const NotFinitePlaces& places);

}  // namespace ventris
