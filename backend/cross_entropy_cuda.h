#pragma once

#include "backend/cross_entropy.h"

namespace ventris {

void cross_entropy_cuda(Context& context, const CrossEntropyArgs& args);
void loss_sum_cuda(Context& context, const LossSumArgs& args);

}  // namespace ventris
