#include "trainer/trainer.h"

#include "trainer/training_run.h"

namespace ventris {

// Section 5 of the paper, on batches of sentence pairs that the ranks share. A device is given step after
// step without being waited for: compute_step() enqueues, and what became of a step is read later.
TrainResult train(Context& context, Communicator& communicator, const TrainOptions& options,
                  const std::string& command, RunStatus* status) {
  TrainingRun run(context, communicator, options, command, status);
  if (run.validation_is_pending()) run.validate();
  while (run.goes_on()) {
    const data::GlobalBatch batch = run.begin_step();
    run.compute_step(batch);
    run.complete_step(batch);
    if (run.validation_is_due()) run.validate();
    if (run.save_is_due()) run.save();
  }
  return run.finish();
}

}  // namespace ventris
