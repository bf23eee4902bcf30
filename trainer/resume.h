#pragma once

#include <string>

#include "model/parameters.h"
#include "trainer/checkpoint.h"
#include "trainer/optimizer.h"
#include "trainer/train_options.h"

namespace ventris {

class Communicator;
class Progress;

/// What a run goes on from.
struct ResumePoint {
  std::string path;               // of the checkpoint; "" where the run starts anew
  int logical_shards = 0;         // that it was trained with; 0 where it does not tell
  std::string valid_metric = {};  // recorded_metric() of that run
};

/// The checkpoint that options.resume names, on every rank; rank 0 looks for it. With "auto" that is the
/// newest sound one of the run folder: a damaged one is set aside with a warning. Files that an earlier run
/// left half-written are removed; `alone` as in data/temporary_name.h.
ResumePoint find_resume_point(Communicator& communicator, const TrainOptions& options, bool alone,
                              Progress& progress);

/// Restores parameters, moments and state on every rank from the checkpoint at `path`; rank 0 reads it. Where
/// the path is "", the parameters of rank 0 are on every rank and the state is as it was. Throws
/// Error(kBadConfiguration) naming the first key in which the checkpoint differs from the run, with both
/// values.
void resume(Context& context, Communicator& communicator, const std::string& path,
            const TrainOptions& options, ParameterStore& store, Optimizer& optimizer, TrainingState& state,
            Progress& progress);

}  // namespace ventris
