// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "trainer/checks/training_plan.h"

namespace ventris {

/// The plan as a table for a person.
std::string plan_table(const TrainingPlan& plan);

}  // namespace ventris
