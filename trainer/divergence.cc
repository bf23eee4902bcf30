// SPDX-License-Identifier: Apache-2.0
#include "trainer/divergence.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/error.h"

namespace ventris {
namespace {

constexpr double kDecay = 0.99;

/// The weight of that many steps.
double weight_of_new(int64_t steps) {
  double weight = 0.0;
  for (int64_t i = 0; i < steps; ++i) weight = kDecay * weight + 1.0;
  return weight;
}

}  // namespace

double DivergenceWatch::limit() const {
  static const double kEnough = weight_of_new(kStepsOfMean);
  if (state_.spike_weight < kEnough) return std::numeric_limits<double>::infinity();
  return options_.factor * state_.spike_sum / state_.spike_weight;
}

void DivergenceWatch::count_finite_step(int64_t step, double loss_per_token) {
  state_.skipped_in_a_row = 0;
  if (options_.on == "ignore") return;
  if (loss_per_token > limit()) {
    if (state_.spike_steps++ == 0) state_.spike_begin = step;
    state_.spike_loss = loss_per_token;
    return;
  }
  state_.spike_steps = state_.spike_begin = 0;
  state_.spike_loss = 0.0;
  state_.spike_sum = kDecay * state_.spike_sum + loss_per_token;
  state_.spike_weight = kDecay * state_.spike_weight + 1.0;
}

void DivergenceWatch::count_skipped_step(int64_t step, const std::string& place) {
  ++state_.skipped_steps;
  // A run that is resumed in the middle of a row does not know its first step.
  if (++state_.skipped_in_a_row == 1 || first_seen_.empty())
    first_seen_ = fmt::format("{} at step {}", place, step);
}

bool DivergenceWatch::has_diverged() const {
  return skips_too_many() || (options_.on != "ignore" && state_.spike_steps >= kSpikeSteps);
}

Rollback DivergenceWatch::rollback() const {
  const int64_t first_skipped = state_.step - state_.skipped_in_a_row + 1;
  Rollback rollback = {.from_step = state_.step,
                       .begin = state_.spike_steps > 0 ? state_.spike_begin : first_skipped,
                       .to_step = 0,
                       .rate = options_.rollback_rate,
                       .what = what_happened(),
                       .pending = true};
  if (skips_too_many()) rollback.begin = std::min(rollback.begin, first_skipped);
  return rollback;
}

std::string DivergenceWatch::what_happened() const {
  if (skips_too_many()) {
    return fmt::format("the loss or a gradient was NaN or Inf in {} steps in a row, first seen in {}",
                       state_.skipped_in_a_row, first_seen_.empty() ? "an earlier start" : first_seen_);
  }
  return fmt::format(
      "the loss per token was above {:.4g}, {:g} times its mean before, in {} steps in a row "
      "from step {} on, and {:.4g} in the last of them",
      limit(), options_.factor, state_.spike_steps, state_.spike_begin, state_.spike_loss);
}

void DivergenceWatch::fail(const std::string& last_checkpoint, const std::string& why_not_back) const {
  ventris::fail(
      ExitCode::kDiverged,
      "training diverged: {}. {}{}. Try a smaller --learning-rate-scale, more --warmup-steps, or --clip-norm "
      "1",
      what_happened(), why_not_back.empty() ? "" : why_not_back + ". ",
      last_checkpoint.empty() ? "No checkpoint was saved" : "The last checkpoint is " + last_checkpoint);
}

}  // namespace ventris
