// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "trainer/files/rollbacks.h"
#include "trainer/files/training_state.h"
#include "trainer/spike_options.h"

namespace ventris {

/// Counts the steps that are skipped for NaN or Inf, and detects when there are too many in a row; unless
/// spikes are ignored, detects them. A spike is kSpikeSteps steps in a row (not counting skipped ones), each
/// with a loss per target token above SpikeOptions::factor times the mean of the steps before: one bad batch
/// is none, as it would come again. In the mean, a step weighs 0.99 of the one after it, and steps that count
/// as part of a spike nothing; there is none before about kStepsOfMean steps.
class DivergenceWatch {
 public:
  static constexpr int64_t kMaxSkippedInARow = 10;
  static constexpr int64_t kSpikeSteps = 5;
  static constexpr int64_t kStepsOfMean = 20;

  /// Its counts are part of the state, so they survive a resume. Both must outlive it.
  DivergenceWatch(TrainingState& state, const SpikeOptions& options) : state_(state), options_(options) {}

  void count_finite_step(int64_t step, double loss_per_token);
  /// `place`: the position of the first number that is not finite.
  void count_skipped_step(int64_t step, const std::string& place);

  /// Steps must not go on: the caller goes back with rollback(), or fails.
  bool has_diverged() const;
  bool goes_back() const { return options_.on == "rollback" && has_diverged(); }
  /// The first skipped step of this row, if known: "the loss at step 12".
  const std::string& first_seen() const { return first_seen_; }
  /// What has diverged, for a rollback from the present step: to which step, is not known here.
  Rollback rollback() const;
  /// Throws Error(kDiverged). `last_checkpoint` is "" if there is none; `why_not_back`: why there is no
  /// rollback, or "" without --on-spike rollback.
  [[noreturn]] void fail(const std::string& last_checkpoint, const std::string& why_not_back = {}) const;

 private:
  bool skips_too_many() const { return state_.skipped_in_a_row >= kMaxSkippedInARow; }
  double limit() const;  // of the loss per token; infinite without a mean
  std::string what_happened() const;

  TrainingState& state_;
  const SpikeOptions& options_;
  std::string first_seen_;
};

}  // namespace ventris
