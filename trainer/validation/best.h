// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "trainer/checkpoint/training_state.h"
#include "trainer/observer.h"
#include "trainer/train_options.h"

/// What a validation changes in the state of a run. `metric` is its value of the --valid-metric. At step 0
/// the parameters are those of --init, which are never the best.

namespace ventris {

/// Records the parameters of the state as the best of the run if they are. Returns whether they are.
bool take_best(const TrainOptions& options, double metric, TrainingState& state);

/// Counts a validation that was due for --patience and `until stalled`, by the same rule.
void count_validation(const TrainOptions& options, double metric, TrainingState& state);

/// Counts a validation that was due for --schedule plateau, as torch.optim.lr_scheduler.ReduceLROnPlateau
/// does: the rate drops by plateau_factor after plateau_patience validations in a row that are not better
/// than the best. Validations until the end of the warm-up do not count. Returns the drop, if there is one.
std::optional<RateDrop> count_for_plateau(const TrainOptions& options, double metric, TrainingState& state);

}  // namespace ventris
