#pragma once

#include <string>

#include "model/parameters.h"
#include "trainer/checkpoint.h"
#include "trainer/optimizer.h"
#include "trainer/train_options.h"

namespace ventris {

class Communicator;
class Progress;

/// Restores parameters, moments and state on every rank from the checkpoint that options.resume names; rank 0
/// reads it. With "auto" that is the newest sound one of the run folder: a damaged one is set aside with a
/// warning. Returns the path, or "" where the run starts anew; then the parameters of rank 0 are on every
/// rank and the state is as it was. Throws Error(kBadConfiguration) naming the first key in which the
/// checkpoint differs from the run, with both values.
std::string resume(Context& context, Communicator& communicator, const TrainOptions& options,
                   ParameterStore& store, Optimizer& optimizer, TrainingState& state, Progress& progress);

}  // namespace ventris
