#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/files/hdf5_reader.h"
#include "model/parameters.h"
#include "trainer/files/checkpoint.h"
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
  // Of rank 0 alone:
  std::unique_ptr<data::Hdf5Reader> reader = {};  // the checkpoint is opened once
  std::vector<std::string> set_aside = {};        // damaged files
};

/// The checkpoint that options.resume names, on every rank; rank 0 looks for it. With "auto" that is the
/// newest sound one of the run folder: a damaged one is set aside with a warning. A file that is named is
/// where the run begins: once it came further, the same command goes on from the newest as well. Files that
/// an earlier run left half-written are removed; `alone` as in data/files/temporary_name.h.
ResumePoint find_resume_point(Communicator& communicator, const TrainOptions& options, bool alone,
                              Progress& progress);

/// Restores parameters, moments and state on every rank from the checkpoint of the point; rank 0 reads it. A
/// run with "auto" goes on from the checkpoint before one whose arrays are found not to be sound, which is
/// set aside: the point is then of that one. Where the path is "", the parameters of rank 0 are on every rank
/// and the state is as it was. Throws Error(kBadConfiguration) naming the first key in which the checkpoint
/// differs from the run, with both values.
void resume(Context& context, Communicator& communicator, ResumePoint& point, const TrainOptions& options,
            ParameterStore& store, Optimizer& optimizer, TrainingState& state, Progress& progress);

}  // namespace ventris
