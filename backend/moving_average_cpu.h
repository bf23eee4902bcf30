#pragma once

#include "backend/moving_average.h"

namespace ventris {

void moving_average_cpu(Context& context, const MovingAverageArgs& args);
void exchange_cpu(Context& context, const ExchangeArgs& args);

}  // namespace ventris
