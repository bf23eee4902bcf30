// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "trainer/files/checkpoint.h"
#include "trainer/metrics.h"
#include "trainer/progress.h"
#include "trainer/train_options.h"

/// What the validations of a run decide: the best model, --patience, `until stalled` and --schedule plateau.

namespace ventris {

/// Whether the parameters of the state are better than the best so far, of best_step (0: none). At step 0
/// they are those of --init.
bool are_better(const std::string& valid_metric, double metric, const TrainingState& state, int64_t best_step,
                double best);

/// Whether they become the best of the run; then the state records them.
bool take_best(const TrainOptions& options, double metric, TrainingState& state);

/// Counts a validation that was due for --patience and `until stalled`, by the same rule.
void count_validation(const TrainOptions& options, double metric, TrainingState& state);

/// Counts it for --schedule plateau, as torch.optim.lr_scheduler.ReduceLROnPlateau does: the
/// rate drops by plateau_factor after plateau_patience validations in a row that are not better than the
/// best. Validations until the end of the warm-up do not count, nor do drops below the floor. Writes a drop
/// to the log (may be null) and reports it.
void count_for_plateau(const TrainOptions& options, double metric, TrainingState& state, MetricsLog* metrics,
                       Progress& progress);

}  // namespace ventris
