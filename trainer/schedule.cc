#include "trainer/schedule.h"

#include <algorithm>
#include <cmath>

namespace ventris {

double Schedule::learning_rate(int64_t step) const {
  const double s = static_cast<double>(std::max<int64_t>(1, step));
  const double w = static_cast<double>(std::max<int64_t>(1, warmup));
  return scale / std::sqrt(static_cast<double>(d_model)) *
         std::min(1.0 / std::sqrt(s), s / (w * std::sqrt(w)));
}

}  // namespace ventris
