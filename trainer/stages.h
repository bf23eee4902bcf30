// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/batches.h"
#include "data/corpus.h"
#include "data/mix_plan.h"
#include "trainer/checkpoint/resume_point.h"
#include "trainer/checkpoint/training_state.h"
#include "trainer/observer.h"
#include "trainer/train_options.h"

namespace ventris {

/// The plan of stages of a run: options.mix, or in a resumed run without it that of its checkpoint. Up to the
/// stage in which the run is, the names and shares of the stages must be those of the checkpoint; what ends a
/// stage, and later stages, may be others. Throws
/// Error(kBadConfiguration) for another plan, for corpora that the file does not have, and for a stage that
/// has not ended and that validations end in a run without them.
data::MixPlan resolved_mix(const TrainOptions& options, const ResumePoint& from, const data::Corpus& corpus);

/// Whether as many validations in a row as the end of the present stage says were not better.
bool stage_has_stalled(const data::BatchSource& batches, const TrainingState& state);

/// Records in the state that its step was the last of the stage with this number.
StageChange record_stage_end(const data::BatchSource& batches, int64_t stage, TrainingState& state);

}  // namespace ventris
