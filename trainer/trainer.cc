#include "trainer/trainer.h"

#include <cmath>

#include "trainer/training_run.h"

namespace ventris {

// Section 5 of the paper, on batches of sentence pairs that the ranks share.
TrainResult train(Context& context, Communicator& communicator, const TrainOptions& options,
                  const std::string& command) {
  TrainingRun run(context, communicator, options, command);
  while (run.goes_on()) {
    const data::GlobalBatch batch = run.begin_step();
    const LossSums sums = run.accumulate_gradients();
    const double norm = run.gradient_norm();
    // Sums and gradients have the same bits on every rank, so all ranks take the same way.
    if (std::isfinite(sums.loss) && std::isfinite(norm)) {
      run.update_parameters(norm);
    } else {
      run.skip_step();
    }
    run.complete_step(batch, sums, norm);
    if (run.validation_is_due()) run.validate();
    if (run.save_is_due()) run.save();
  }
  return run.finish();
}

}  // namespace ventris
