#pragma once

#include "backend/top_k.h"

namespace ventris {

void log_softmax_top_k_cuda(Context& context, const LogSoftmaxTopKArgs& args);
void log_probability_cuda(Context& context, const LogProbabilityArgs& args);

}  // namespace ventris
