#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "backend/adam.h"
#include "backend/arena.h"
#include "backend/context.h"
#include "backend/not_finite.h"
#include "backend/transfer.h"
#include "backend/update_plan.h"
#include "model/parameters.h"
#include "trainer/train_options.h"

namespace ventris {

/// The report of the device for a step.
struct StepReport {
  StepOutcome outcome;
  NotFinitePlaces not_finite;  // in the flat buffers; of a skipped step
};

/// Adam (section 5.3 of the paper) over the flat buffers of a store, with its moments. Skipping of a step,
/// clipping of its gradient and the number of the update are computed on the device, so that the host
/// enqueues the next step without waiting.
class Optimizer {
 public:
  /// The references must outlive the object. The moments start at zero, after no update.
  Optimizer(Context& context, ParameterStore& store, const TrainOptions& options);
  /// Device memory for a store of `flat_size` elements: moments and average, by the options.
  static size_t planned_bytes(int64_t flat_size, DType master, const TrainOptions& options);

  /// The moments are those after that many updates.
  void set_updates(int64_t updates);
  /// Enqueues the learning rate of the updates that follow. Waits for the device if it has not read the rate
  /// before the last one.
  void set_learning_rate(double learning_rate);
  /// Enqueues one update with the gradients of the store, which are those of the global batch, and clears
  /// them. `loss_sums`, [1, 2] f64 on the device, are also those of the global batch, and cleared. A step
  /// with NaN or Inf in the loss or the gradients does not change the parameters, the moments and the number
  /// of updates. Always enqueues the same work, so that it may be part of a graph (backend/step_graph.h).
  void update(Tensor loss_sums);
  /// Enqueues the copy of the report of the last update().
  void receive_report(HostBuffer& to) { to.receive(report_, sizeof(StepReport)); }
  /// With --ema, sets the average to the current parameters.
  void start_average();

  Tensor m() { return m_; }  // [1, flat_size] master
  Tensor v() { return v_; }  // [1, flat_size] master
  /// Exponential moving average of the parameters: [1, flat_size] master, or empty without --ema.
  Tensor average() { return average_; }

 private:
  Context& context_;
  ParameterStore& store_;
  const float beta1_;
  const float beta2_;
  const float epsilon_;
  const double clip_norm_;
  const double ema_;
  Arena memory_;
  Tensor m_;
  Tensor v_;
  Tensor average_;
  // On the device:
  double* sum_of_squares_;
  int64_t* updates_;
  float* learning_rate_;
  AdamScalars* scalars_;
  StepReport* report_;
  std::array<HostBuffer, 2> learning_rates_;  // pending, alternating
  size_t turn_ = 0;
};

/// The location of the NaN or Inf of a skipped step, as text: the first parameter that has one, otherwise the
/// last parameter whose gradient does, otherwise "the loss".
std::string describe_not_finite(const ParameterStore& store, const NotFinitePlaces& places);

}  // namespace ventris
