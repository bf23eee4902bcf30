#pragma once

#include "backend/update_plan.h"

namespace ventris {

void plan_update_cpu(const PlanUpdateArgs& args);

}  // namespace ventris
