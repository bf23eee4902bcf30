// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ventris {

/// The course of the learning rate over the steps (train --schedule).
enum class ScheduleKind { kNoam, kInverseSqrt, kLinear, kCosine, kConstant, kPlateau };
inline constexpr ScheduleKind kSchedules[] = {ScheduleKind::kNoam,     ScheduleKind::kInverseSqrt,
                                              ScheduleKind::kLinear,   ScheduleKind::kCosine,
                                              ScheduleKind::kConstant, ScheduleKind::kPlateau};
/// "noam", "inverse-sqrt" and so on.
const char* name_of(ScheduleKind kind);

/// The options of all schedules but noam. Rates are per step, as Adam takes them.
struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::kNoam;
  double peak = 0.0;         // the rate after the warm-up
  int64_t decay_steps = 0;   // until zero; of inverse-sqrt N, see Schedule; 0: by schedule_of()
  int plateau_patience = 1;  // validations without a better one until the rate drops
  double plateau_factor = 0.1;
};

/// The learning rate by the step, counted from 1.
///
/// noam: that of section 5.3 of the paper, scale * d_model^-0.5 * min(step^-0.5, step * warmup^-1.5). The
/// peak, at step = warmup, is scale * (d_model * warmup)^-0.5.
///
/// The others rise as peak * step / warmup, and then, with t = min(1, (step - warmup) / decay_steps), are
///   inverse-sqrt         peak * sqrt(N / step) from step N = decay_steps on
///   linear               peak * (1 - t)
///   cosine               peak * (1 + cos(pi t)) / 2
///   constant             peak
///   plateau              peak * plateau_factor with the factor reached by the validations
/// An inverse-sqrt whose decay begins within the warm-up is the product of both.
struct Schedule {
  double scale = 1.0;
  int d_model = 512;
  int64_t warmup = 4000;
  ScheduleOptions options = {};  // with decay_steps where the schedule has them
  /// `plateau_factor`: the product of all drops so far, of plateau alone.
  double learning_rate(int64_t step, double plateau_factor = 1.0) const;
};

}  // namespace ventris
