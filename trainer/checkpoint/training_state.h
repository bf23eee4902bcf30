// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "backend/device/tensor.h"
#include "data/batches.h"
#include "trainer/checkpoint/mix_state.h"

namespace ventris {

/// The state of an optimizer in addition to the parameters, on the context's device or on the host.
struct OptimizerState {
  Tensor m;             // [1, trained_size] f32: Adam's moments
  Tensor v;             // the same
  Tensor average = {};  // the same: moving average of the parameters, or empty
  bool on_host = false;
};

/// The state of a training run except the parameters and Adam's moments.
struct TrainingState {
  int64_t step = 0;             // steps done
  data::DataPosition position;  // of the next batch
  MixState mix;                 // with a plan of stages
  int64_t skipped_steps = 0;    // for NaN or Inf
  int64_t skipped_in_a_row = 0;
  int64_t target_tokens = 0;     // trained on so far
  int64_t logical_shards = 0;    // of a global batch: with the position, determines the batches
  double elapsed_seconds = 0.0;  // of training so far, over all runs
  double best_metric = 0.0;      // by valid_metric; meaningful if best_step > 0
  int64_t best_step = 0;
  double best_due_metric = 0.0;  // the same of the validations that were due by --valid-every alone
  int64_t best_due_step = 0;
  int64_t validations_without_improvement = 0;  // in a row, of those that were due
  double plateau_factor = 1.0;      // of train --schedule plateau: the product of the drops so far,
  double plateau_best = 0.0;        // the best validation for it; meaningful if plateau_best_step > 0,
  int64_t plateau_best_step = 0;    // and
  int64_t plateau_validations = 0;  // those in a row since then, or since the last drop, that were no better
  int64_t validation_pending = 0;   // 1: the validation of this step was abandoned for a stop
  int64_t initial_updates = 0;      // of Adam, before the first step (train --init-optimizer keep)
  std::string valid_metric;         // train --valid-metric
  std::string valid_signature;      // of scores, as last logged; "" before
  std::string corpus_digest;
  std::string resume_signature;  // trainer/checkpoint/resume_signature.h
  std::string environment;       // trainer/run_environment.h
  std::string product_choices;   // trainer/product_choices.h; "" on the CPU
};

/// Calls each(name, member) for every number of the state, in a fixed order.
template <typename State, typename Each>
void for_each_number(State& state, Each&& each) {
  each("step", state.step);
  each("epoch", state.position.epoch);
  each("epoch_index", state.position.index);
  each("skipped_steps", state.skipped_steps);
  each("skipped_in_a_row", state.skipped_in_a_row);
  each("target_tokens", state.target_tokens);
  each("logical_shards", state.logical_shards);
  each("elapsed_seconds", state.elapsed_seconds);
  each("best_metric", state.best_metric);
  each("best_step", state.best_step);
  each("best_due_metric", state.best_due_metric);
  each("best_due_step", state.best_due_step);
  each("validations_without_improvement", state.validations_without_improvement);
  each("plateau_factor", state.plateau_factor);
  each("plateau_best", state.plateau_best);
  each("plateau_best_step", state.plateau_best_step);
  each("plateau_validations", state.plateau_validations);
  each("validation_pending", state.validation_pending);
  each("initial_updates", state.initial_updates);
}

/// Calls each(name, member, whether every checkpoint has it) for every text of the state, in a fixed order.
template <typename State, typename Each>
void for_each_text(State& state, Each&& each) {
  each("valid_metric", state.valid_metric, true);
  each("valid_signature", state.valid_signature, false);
  each("corpus_digest", state.corpus_digest, true);
  each("resume_signature", state.resume_signature, true);
  each("environment", state.environment, false);
  each("product_choices", state.product_choices, false);
}

}  // namespace ventris
