#pragma once

#include <cstdint>
#include <string>

#include "trainer/files/checkpoint.h"

namespace ventris {

/// Counts the steps that are skipped for NaN or Inf, and detects when there are too many in a row.
class DivergenceWatch {
 public:
  static constexpr int64_t kMaxSkippedInARow = 10;

  /// Its counts are part of the state, so they survive a resume. The state must outlive it.
  explicit DivergenceWatch(TrainingState& state) : state_(state) {}

  void count_finite_step() { state_.skipped_in_a_row = 0; }
  /// `place`: the position of the first number that is not finite.
  void count_skipped_step(int64_t step, const std::string& place);

  bool has_diverged() const { return state_.skipped_in_a_row >= kMaxSkippedInARow; }
  /// The first skipped step of this row, if known: "the loss at step 12".
  const std::string& first_seen() const { return first_seen_; }
  /// Throws Error(kDiverged). `last_checkpoint` is "" if there is none.
  [[noreturn]] void fail(const std::string& last_checkpoint) const;

 private:
  TrainingState& state_;
  std::string first_seen_;
};

}  // namespace ventris
