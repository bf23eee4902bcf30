#pragma once

#include "backend/log_probability_sum.h"

namespace ventris {

void log_probability_sum_cuda(Context& context, const LogProbabilitySumArgs& args);

}  // namespace ventris
