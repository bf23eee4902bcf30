// SPDX-License-Identifier: Apache-2.0
#include "trainer/validation_counts.h"

#include <fmt/core.h>

#include <cmath>

#include "trainer/schedule_options.h"
#include "trainer/text.h"

namespace ventris {

bool are_better(const std::string& valid_metric, double metric, const TrainingState& state, int64_t best_step,
                double best) {
  return state.step > 0 && std::isfinite(metric) && (best_step == 0 || is_better(valid_metric, metric, best));
}

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

void count_for_plateau(const TrainOptions& options, double metric, TrainingState& state, MetricsLog* metrics,
                       Progress& progress) {
  const ScheduleOptions& schedule = options.schedule;
  if (schedule.kind != ScheduleKind::kPlateau || state.step <= options.warmup_steps) return;
  if (are_better(options.valid_metric, metric, state, state.plateau_best_step, state.plateau_best)) {
    state.plateau_best = metric;
    state.plateau_best_step = state.step;
    state.plateau_validations = 0;
    return;
  }
  if (++state.plateau_validations < schedule.plateau_patience) return;
  state.plateau_validations = 0;
  const Schedule course = schedule_of(options);
  const double before = course.learning_rate(state.step, state.plateau_factor);
  const double factor = state.plateau_factor * schedule.plateau_factor;
  const double after = course.learning_rate(state.step, factor);
  if (after == before) return;
  state.plateau_factor = factor;
  if (metrics != nullptr) metrics->write_plateau(state.step, factor);
  progress.message(
      fmt::format("the learning rate drops from {:.4g} to {:.4g} after step {}: {} without a better one",
                  before, after, state.step, counted(schedule.plateau_patience, "validation")));
}

}  // namespace ventris
