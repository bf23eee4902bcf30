// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "model/parameters.h"
#include "trainer/checkpoint/resume_point.h"
#include "trainer/checkpoint/training_state.h"
#include "trainer/optimizer.h"
#include "trainer/train_options.h"

namespace ventris {

class Communicator;
class Progress;

/// The checkpoint of options.resume, on every rank; rank 0 finds it. With "auto" it is the newest sound one
/// of the run folder: a damaged one is set aside with a warning. A named file is where the run begins: after
/// a later save, the same command also resumes from the newest. Half-written files of an earlier run are
/// removed; `alone` as in data/io/temporary_name.h.
ResumePoint find_resume_point(Communicator& communicator, const TrainOptions& options, bool alone,
                              Progress& progress);

/// Restores parameters, moments and state on every rank from the checkpoint of the point; rank 0 reads it.
/// With "auto", a checkpoint whose arrays are not sound, which no run saves, is set aside, and the start ends
/// with Error(kUnavailable): the next one takes the previous checkpoint. If the path is "", the parameters of
/// rank 0 are copied to every rank and the state is unchanged. Throws Error(kBadConfiguration) naming the
/// first key in which the checkpoint differs from the run, with both values.
void resume(Context& context, Communicator& communicator, ResumePoint& point, const TrainOptions& options,
            ParameterStore& store, Optimizer& optimizer, TrainingState& state, Progress& progress);

/// Throws what find_resume_point() and resume() would for a checkpoint whose model is known to be right
/// (check_model), as far as they need no options.
void check_resume_point(const data::Hdf5Reader& reader);

}  // namespace ventris
