#pragma once

#include <cstdint>
#include <string>

#include "backend/adam.h"
#include "backend/arena.h"
#include "backend/context.h"
#include "backend/transfer.h"
#include "model/parameters.h"
#include "trainer/train_options.h"

namespace ventris {

/// Adam (section 5.3 of the paper) over the flat buffers of a store, with its moments.
class Optimizer {
 public:
  /// The references outlive the object. The moments begin at zero.
  Optimizer(Context& context, ParameterStore& store, const TrainOptions& options);

  /// Enqueues the computation of what gradient_norm() reads.
  void compute_norm();
  /// Euclidean norm of all gradients at the last compute_norm(); not finite if any of them is NaN or Inf.
  /// Waits for the device.
  double gradient_norm();
  /// Update number `update`, counted from 1. Scales the gradients down to the clipping norm where there is
  /// one.
  void step(int64_t update, double learning_rate, double gradient_norm);
  void zero_gradients();

  Tensor m() { return m_; }  // [1, flat_size] master
  Tensor v() { return v_; }  // [1, flat_size] master

 private:
  Context& context_;
  ParameterStore& store_;
  const float beta1_;
  const float beta2_;
  const float epsilon_;
  const double clip_norm_;
  Arena memory_;
  Tensor m_;
  Tensor v_;
  StagingBuffer scalars_;   // AdamScalars
  double* sum_of_squares_;  // on the device
};

/// Where a NaN or Inf is, for a person: the first parameter that holds one, else the last parameter whose
/// gradient does (backward reaches it first), else "the loss". Slow.
std::string describe_not_finite(Context& context, ParameterStore& store);

}  // namespace ventris
