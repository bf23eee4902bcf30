#pragma once

#include "backend/swish.h"

namespace ventris {

void swish_forward_cuda(Context& context, const SwishForwardArgs& args);
void swish_backward_cuda(Context& context, const SwishBackwardArgs& args);

}  // namespace ventris
