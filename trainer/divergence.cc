// SPDX-License-Identifier: Apache-2.0
#include "trainer/divergence.h"

#include "backend/device/error.h"

namespace ventris {

std::string half_the_rate(const TrainOptions& options) {
  return options.schedule.kind == ScheduleKind::kNoam
             ? fmt::format("--learning-rate-scale {:g}", 0.5 * options.learning_rate_scale)
             : fmt::format("--peak-learning-rate {:g}", 0.5 * options.schedule.peak);
}

std::string advice_after_divergence(const std::string& last_checkpoint, const std::string& rate) {
  return fmt::format(
      "{} with half of the learning rate, {}; more --warmup-steps or --clip-norm 1 may help too",
      last_checkpoint.empty()
          ? "No checkpoint was saved: start again"
          : fmt::format("The last checkpoint is {}: start again from it", last_checkpoint),
      rate);
}

void DivergenceWatch::count_skipped_step(int64_t step, const std::string& place) {
  ++state_.skipped_steps;
  // A run that is resumed in the middle of a row does not know its first step.
  if (++state_.skipped_in_a_row == 1 || first_seen_.empty())
    first_seen_ = fmt::format("{} at step {}", place, step);
}

void DivergenceWatch::fail(const std::string& last_checkpoint, const TrainOptions& options) const {
  ventris::fail(
      ExitCode::kDiverged,
      "training diverged: the loss or a gradient was NaN or Inf in {} steps in a row, first seen in {}. {}",
      state_.skipped_in_a_row, first_seen_.empty() ? "an earlier start" : first_seen_,
      advice_after_divergence(last_checkpoint, half_the_rate(options)));
}

}  // namespace ventris
