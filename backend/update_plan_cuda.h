#pragma once

#include "backend/update_plan.h"

namespace ventris {

void plan_update_cuda(Context& context, const PlanUpdateArgs& args);

}  // namespace ventris
