#include "trainer/divergence.h"

#include "backend/error.h"

namespace ventris {

void DivergenceWatch::count_skipped_step(int64_t step, const std::string& place) {
  ++state_.skipped_steps;
  // A run that is resumed in the middle of a row does not know its first step.
  if (++state_.skipped_in_a_row == 1 || first_seen_.empty())
    first_seen_ = fmt::format("{} at step {}", place, step);
}

void DivergenceWatch::fail(const std::string& last_checkpoint) const {
  ventris::fail(
      ExitCode::kDiverged,
      "training diverged: the loss or a gradient was NaN or Inf in {} steps in a row, first seen in {}. {}. "
      "Try a smaller --learning-rate-scale, more --warmup-steps, or --clip-norm 1",
      state_.skipped_in_a_row, first_seen_,
      last_checkpoint.empty() ? "No checkpoint was saved" : "The last checkpoint is " + last_checkpoint);
}

}  // namespace ventris
