#pragma once

#include "backend/cast.h"

namespace ventris {

void cast_cpu(Context& context, const CastArgs& args);
void fill_zero_cpu(Context& context, Tensor tensor);

}  // namespace ventris
