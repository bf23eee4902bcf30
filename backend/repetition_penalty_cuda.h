#pragma once

#include "backend/repetition_penalty.h"

namespace ventris {

void repetition_penalty_cuda(Context& context, const RepetitionPenaltyArgs& args);

}  // namespace ventris
