// SPDX-License-Identifier: Apache-2.0
#include "trainer/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ventris {
namespace {

double noam(const Schedule& schedule, int64_t step) {
  const double s = static_cast<double>(std::max<int64_t>(1, step));
  const double w = static_cast<double>(std::max<int64_t>(1, schedule.warmup));
  return schedule.scale / std::sqrt(static_cast<double>(schedule.d_model)) *
         std::min(1.0 / std::sqrt(s), s / (w * std::sqrt(w)));
}

}  // namespace

const char* name_of(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::kNoam:
      return "noam";
    case ScheduleKind::kInverseSqrt:
      return "inverse-sqrt";
    case ScheduleKind::kLinear:
      return "linear";
    case ScheduleKind::kCosine:
      return "cosine";
    case ScheduleKind::kConstant:
      return "constant";
    case ScheduleKind::kPlateau:
      return "plateau";
  }
  return "noam";
}

double Schedule::learning_rate(int64_t step, double plateau_factor) const {
  if (options.kind == ScheduleKind::kNoam) return noam(*this, step);
  const bool warms_up = step < warmup;
  const double risen =
      warms_up ? options.peak * static_cast<double>(step) / static_cast<double>(warmup) : options.peak;
  const double steps = static_cast<double>(options.decay_steps);
  if (options.kind == ScheduleKind::kInverseSqrt)
    return step > options.decay_steps ? risen * std::sqrt(steps / static_cast<double>(step)) : risen;
  if (warms_up) return risen;
  const double passed = static_cast<double>(step - warmup);
  switch (options.kind) {
    case ScheduleKind::kLinear:
      return options.peak * (1.0 - std::min(1.0, passed / steps));
    case ScheduleKind::kCosine:
      return 0.5 * options.peak * (1.0 + std::cos(std::numbers::pi * std::min(1.0, passed / steps)));
    case ScheduleKind::kPlateau:
      return options.peak * plateau_factor;
    default:
      return options.peak;
  }
}

}  // namespace ventris
