#pragma once

#include "backend/not_finite.h"

namespace ventris {

void find_not_finite_cuda(Context& context, const FindNotFiniteArgs& args);

}  // namespace ventris
