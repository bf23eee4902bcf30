// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "backend/ops/tolerance.h"

namespace ventris::testing {

using ventris::Tolerance;
using ventris::tolerance_of;

inline bool close(double got, double expected, Tolerance tolerance) {
  return std::abs(got - expected) <= tolerance.absolute + tolerance.relative * std::abs(expected);
}

}  // namespace ventris::testing
