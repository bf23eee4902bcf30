#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "trainer/train_options.h"

namespace ventris {

class Communicator;
class Context;

/// A digest of the parameters (trainer/files/parameter_digest.h) that a run left behind.
struct RecordedDigest {
  std::string origin;  // "metrics.jsonl", or the name of a checkpoint
  std::string digest;
};

/// A step that was computed again.
struct ReplayedStep {
  int64_t step = 0;
  std::string digest;
  std::vector<RecordedDigest> recorded;  // at least one

  bool agrees() const;
};

/// What config.json tells of the newest start of a run.
struct RecordedRun {
  TrainOptions options;
  std::string kernels;  // the instructions of run_environment(), or "" where an earlier version wrote none
};

/// Of the run whose folder holds the checkpoint; rank 0 reads it. Throws Error(kMissingInput) where there is
/// no config.json, Error(kBadData) where it is none of ours.
RecordedRun recorded_run(Communicator& communicator, const std::string& checkpoint);

/// Computes `steps` steps (0: as many as the record tells of) from the checkpoint again, with the options of
/// its run, and compares the digests with those in metrics.jsonl and in later checkpoints of its folder, in
/// which nothing is written: training runs in a scratch folder of rank 0. `each` is called on every rank for
/// every step of which there is a record. All ranks call it. Throws Error(kMissingInput) if there is nothing
/// to compare with, and what train() throws.
void replay(Context& context, Communicator& communicator, const TrainOptions& run,
            const std::string& checkpoint, int64_t steps, const std::string& command,
            const std::function<void(const ReplayedStep&)>& each);

}  // namespace ventris
