// SPDX-License-Identifier: Apache-2.0
#include "trainer/trainer.h"

#include <memory>

#include "trainer/training_run.h"

namespace ventris {

namespace {

// Section 5 of the paper, on batches of sentence pairs that the ranks share. Steps are enqueued on a device
// without waiting for it: compute_step() enqueues, and the result of a step is read later.
TrainResult train(TrainingRun& run) {
  if (run.validation_is_pending()) run.validate();
  while (run.goes_on()) {
    const data::GlobalBatch batch = run.begin_step();
    if (!run.compute_step(batch)) break;
    run.complete_step(batch);
    if (run.validation_is_due()) run.validate();
    if (run.save_is_due()) run.save();
  }
  return run.finish();
}

}  // namespace

TrainResult train(Context& context, Communicator& communicator, const TrainOptions& options,
                  const std::string& command, RunStatus* status) {
  auto run = std::make_unique<TrainingRun>(context, communicator, options, command, status);
  try {
    return train(*run);
  } catch (...) {
    // Otherwise the destructor would wait for a thread that hangs in the file system, or free its memory.
    if (!run->settle()) static_cast<void>(run.release());
    throw;
  }
}

}  // namespace ventris
