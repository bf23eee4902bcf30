// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "backend/ops/not_finite.h"

namespace ventris {
namespace {

template <typename M>
NotFinitePlaces find(const FindNotFiniteArgs& args) {
  const int64_t n = args.values.cols;
  const M* values = args.values.as<M>();
  const M* gradients = args.gradients.as<M>();
  int64_t value = 0;
  while (value < n && std::isfinite(values[value])) ++value;
  int64_t gradient = n - 1;
  while (gradient >= 0 && std::isfinite(gradients[gradient])) --gradient;
  return {.first_value = value == n ? -1 : value, .last_gradient = gradient};
}

}  // namespace

void find_not_finite_cpu(Context& /*context*/, const FindNotFiniteArgs& args) {
  if (*args.wanted == 0) {
    *args.places = {.first_value = -1, .last_gradient = -1};
  } else {
    *args.places = args.values.dtype == DType::kF64 ? find<double>(args) : find<float>(args);
  }
}

}  // namespace ventris
