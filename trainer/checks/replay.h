// SPDX-License-Identifier: Apache-2.0
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

/// A digest of the parameters (trainer/files/parameter_digest.h) recorded by a run.
struct RecordedDigest {
  std::string origin;  // "metrics.jsonl", or the name of a checkpoint
  std::string digest;
};

/// A step that was repeated.
struct ReplayedStep {
  int64_t step = 0;
  std::string digest;
  std::vector<RecordedDigest> recorded;  // at least one

  bool agrees() const;
};

/// The newest start of a run, by config.json.
struct RecordedRun {
  TrainOptions options;
  std::string kernels;  // the instructions of run_environment(), or "" from an earlier version
};

/// For the run whose folder has the checkpoint; rank 0 reads it. Throws Error(kMissingInput) if there is no
/// config.json, Error(kBadData) if it is not one of ours.
RecordedRun recorded_run(Communicator& communicator, const std::string& checkpoint);

/// Repeats `steps` steps (0: all recorded ones) from the checkpoint, with the options of its run, and
/// compares the digests with those in metrics.jsonl and in later checkpoints of its folder. Does not write to
/// that folder: training runs in a scratch folder of rank 0. `each` is called on every rank for every
/// recorded step. All ranks must call it. Throws Error(kMissingInput) if there are no records to compare
/// with, and the errors of train().
void replay(Context& context, Communicator& communicator, const TrainOptions& run,
            const std::string& checkpoint, int64_t steps, const std::string& command,
            const std::function<void(const ReplayedStep&)>& each);

}  // namespace ventris
