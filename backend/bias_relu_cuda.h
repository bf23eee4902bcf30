#pragma once

#include "backend/bias_relu.h"

namespace ventris {

void bias_relu_backward_cuda(Context& context, const BiasReluBackwardArgs& args);
void bias_backward_cuda(Context& context, const BiasBackwardArgs& args);

}  // namespace ventris
