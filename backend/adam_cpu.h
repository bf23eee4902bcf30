#pragma once

#include "backend/adam.h"

namespace ventris {

void adam_cpu(Context& context, const AdamArgs& args);

}  // namespace ventris
