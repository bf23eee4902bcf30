#pragma once

#include "data/corpus.h"
#include "data/mix_plan.h"
#include "trainer/resume.h"
#include "trainer/train_options.h"

namespace ventris {

/// The plan of stages of a run: options.mix, or in a resumed run without it that of its checkpoint. Up to the
/// stage in which the run is, the names and shares of the stages must be those of the checkpoint; what ends a
/// stage, and later stages, may be others. Throws
/// Error(kBadConfiguration) for another plan, for corpora that the file does not have, and for a stage that
/// validations end in a run without them.
data::MixPlan resolved_mix(const TrainOptions& options, const ResumePoint& from, const data::Corpus& corpus);

}  // namespace ventris
