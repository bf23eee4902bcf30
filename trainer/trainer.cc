// SPDX-License-Identifier: Apache-2.0
#include "trainer/trainer.h"

#include <memory>
#include <optional>

#include "trainer/training_run.h"

namespace ventris {

namespace {

// Section 5 of the paper, on batches of sentence pairs that the ranks share. Steps are enqueued on a device
// without waiting for it: compute_step() enqueues, and the result of a step is read later.
// No result if the run went back to an earlier checkpoint.
std::optional<TrainResult> train(TrainingRun& run) {
  if (run.validation_is_pending() && !run.goes_back()) run.validate();
  while (run.goes_on() && !run.goes_back()) {
    const data::GlobalBatch batch = run.begin_step();
    if (!run.compute_step(batch)) break;
    run.complete_step(batch);
    if (run.goes_back()) break;
    if (run.validation_is_due()) run.validate();
    if (run.save_is_due()) run.save();
  }
  if (!run.goes_back()) return run.finish();
  run.go_back();
  return {};
}

}  // namespace

TrainResult train(Context& context, Communicator& communicator, const TrainOptions& options,
                  const std::string& command, RunStatus* status) {
  TrainingProcess process;
  TrainOptions present = options;
  while (true) {
    auto run = std::make_unique<TrainingRun>(context, communicator, present, command, status, process);
    try {
      if (const std::optional<TrainResult> result = train(*run)) return *result;
    } catch (...) {
      // Otherwise the destructor would wait for a thread that hangs in the file system, or free its memory.
      if (!run->settle()) static_cast<void>(run.release());
      throw;
    }
    process.phases = PhaseClock();
    if (present.resume == "never") present.resume = "auto";
  }
}

}  // namespace ventris
