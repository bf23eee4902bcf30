// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "trainer/checkpoint/training_state.h"
#include "trainer/train_options.h"

namespace ventris {

/// The option that halves the learning rate of a run: "--learning-rate-scale 0.5".
std::string half_the_rate(const TrainOptions& options);

/// From which checkpoint ("" if there is none) and with which rate a run that diverged should start again.
std::string advice_after_divergence(const std::string& last_checkpoint, const std::string& rate);

/// Counts the steps that are skipped for NaN or Inf, and detects when there are too many in a row.
class DivergenceWatch {
 public:
  static constexpr int64_t kMaxSkippedInARow = 10;

  /// Its counts are part of the state, so they survive a resume. It must outlive the watch.
  explicit DivergenceWatch(TrainingState& state) : state_(state) {}

  void count_finite_step() { state_.skipped_in_a_row = 0; }
  /// `place`: the position of the first number that is not finite.
  void count_skipped_step(int64_t step, const std::string& place);

  /// Steps must not go on: the caller must fail().
  bool has_diverged() const { return state_.skipped_in_a_row >= kMaxSkippedInARow; }
  /// The first skipped step of this row, if known: "the loss at step 12".
  const std::string& first_seen() const { return first_seen_; }
  /// Throws Error(kDiverged) with the advice_after_divergence().
  [[noreturn]] void fail(const std::string& last_checkpoint, const TrainOptions& options) const;

 private:
  TrainingState& state_;
  std::string first_seen_;
};

}  // namespace ventris
