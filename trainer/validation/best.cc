// SPDX-License-Identifier: Apache-2.0
#include "trainer/validation/best.h"

#include <cmath>
#include <string>

#include "trainer/schedule_options.h"

namespace ventris {
namespace {

/// Whether the parameters of the state are better than the best so far, of best_step (0: none).
bool are_better(const std::string& valid_metric, double metric, const TrainingState& state, int64_t best_step,
                double best) {
  if (state.step == 0 || !std::isfinite(metric)) return false;
  if (best_step == 0) return true;
  return valid_metric == "bleu" || valid_metric == "chrf" ? metric > best : metric < best;
}

}  // namespace

bool take_best(const TrainOptions& options, double metric, TrainingState& state) {
  if (!are_better(options.valid_metric, metric, state, state.best_step, state.best_metric)) return false;
  state.best_metric = metric;
  state.best_step = state.step;
  return true;
}

void count_validation(const TrainOptions& options, double metric, TrainingState& state) {
  // Then these are the parameters of the stage before.
  const bool begins_stage = state.position.mix.stage > 0 && state.position.mix.steps == 0;
  if (are_better(options.valid_metric, metric, state, state.best_due_step, state.best_due_metric)) {
    state.best_due_metric = metric;
    state.best_due_step = state.step;
    state.validations_without_improvement = 0;
  } else if (state.step > 0 && !begins_stage) {
    ++state.validations_without_improvement;
  }
}

std::optional<RateDrop> count_for_plateau(const TrainOptions& options, double metric, TrainingState& state) {
  const ScheduleOptions& schedule = options.schedule;
  if (schedule.kind != ScheduleKind::kPlateau || state.step <= options.warmup_steps) return std::nullopt;
  if (are_better(options.valid_metric, metric, state, state.plateau_best_step, state.plateau_best)) {
    state.plateau_best = metric;
    state.plateau_best_step = state.step;
    state.plateau_validations = 0;
    return std::nullopt;
  }
  if (++state.plateau_validations < schedule.plateau_patience) return std::nullopt;
  state.plateau_validations = 0;
  const Schedule course = schedule_of(options);
  const double factor = state.plateau_factor * schedule.plateau_factor;
  const RateDrop drop = {.step = state.step,
                         .factor = factor,
                         .before = course.learning_rate(state.step, state.plateau_factor),
                         .after = course.learning_rate(state.step, factor),
                         .validations = schedule.plateau_patience};
  if (drop.after == drop.before) return std::nullopt;
  state.plateau_factor = factor;
  return drop;
}

}  // namespace ventris
