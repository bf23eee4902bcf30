#pragma once

#include "backend/top_k.h"

namespace ventris {

void log_softmax_top_k_cpu(Context& context, const LogSoftmaxTopKArgs& args);
void log_probability_cpu(Context& context, const LogProbabilityArgs& args);

}  // namespace ventris
