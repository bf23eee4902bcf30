#pragma once

#include "backend/moving_average.h"

namespace ventris {

void moving_average_cuda(Context& context, const MovingAverageArgs& args);
void exchange_cuda(Context& context, const ExchangeArgs& args);

}  // namespace ventris
