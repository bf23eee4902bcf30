#pragma once

#include "backend/bias_relu.h"

namespace ventris {

void bias_relu_backward_cpu(Context& context, const BiasReluBackwardArgs& args);
void bias_backward_cpu(Context& context, const BiasBackwardArgs& args);

}  // namespace ventris
