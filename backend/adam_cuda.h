#pragma once

#include "backend/adam.h"

namespace ventris {

void adam_cuda(Context& context, const AdamArgs& args);

}  // namespace ventris
