#pragma once

#include "backend/swish.h"

namespace ventris {

void swish_forward_cpu(Context& context, const SwishForwardArgs& args);
void swish_backward_cpu(Context& context, const SwishBackwardArgs& args);

}  // namespace ventris
