#pragma once

#include "backend/not_finite.h"

namespace ventris {

/// On one thread: it is needed once in a long while.
void find_not_finite_cpu(const FindNotFiniteArgs& args);

}  // namespace ventris
