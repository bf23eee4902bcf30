#pragma once

#include "backend/cast.h"

namespace ventris {

void cast_cuda(Context& context, const CastArgs& args);
void fill_zero_cuda(Context& context, Tensor tensor);

}  // namespace ventris
