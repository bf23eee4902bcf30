#pragma once

#include <cstdint>

namespace ventris {

/// The learning rate of section 5.3 of the paper, scale * d_model^-0.5 * min(step^-0.5, step * warmup^-1.5),
/// with steps counted from 1. The peak, at step = warmup, is scale * (d_model * warmup)^-0.5.
struct Schedule {
  double scale = 1.0;
  int d_model = 512;
  int64_t warmup = 4000;
  double learning_rate(int64_t step) const;
};

}  // namespace ventris
