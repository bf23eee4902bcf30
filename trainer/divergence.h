#pragma once

#include <cstdint>
#include <string>

#include "trainer/files/checkpoint.h"

namespace ventris {

/// Counts the steps that are skipped for NaN or Inf, and knows when there are too many in a row for training
/// to go on.
class DivergenceWatch {
 public:
  static constexpr int64_t kMaxSkippedInARow = 10;

  /// Its counts are those of the state, so that they go on with the run. The state outlives it.
  explicit DivergenceWatch(TrainingState& state) : state_(state) {}

  void count_finite_step() { state_.skipped_in_a_row = 0; }
  /// `place`: where the first number that is not finite stands.
  void count_skipped_step(int64_t step, const std::string& place);

  bool has_diverged() const { return state_.skipped_in_a_row >= kMaxSkippedInARow; }
  /// Of the first step that was skipped in this row, as far as it is known: "the loss at step 12".
  const std::string& first_seen() const { return first_seen_; }
  /// Throws Error(kDiverged). `last_checkpoint` is "" where there is none.
  [[noreturn]] void fail(const std::string& last_checkpoint) const;

 private:
  TrainingState& state_;
  std::string first_seen_;
};

}  // namespace ventris
