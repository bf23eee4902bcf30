#pragma once

#include "backend/layer_norm.h"

namespace ventris {

void layer_norm_forward_cuda(Context& context, const LayerNormForwardArgs& args);
void layer_norm_backward_cuda(Context& context, const LayerNormBackwardArgs& args);

}  // namespace ventris
