// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch/option_table.h"
#include "trainer/train_options.h"

namespace ventris {

/// Declares the options of `ventris train` for learning from other models (trainer/teacher_models.h).
void add_teacher_options(TrainOptions& train, OptionTable& table);

}  // namespace ventris
