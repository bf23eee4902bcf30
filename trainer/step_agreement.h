// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ventris {

class Communicator;

/// What the ranks agree on in a step: one sum over the ranks, between the hosts, which does not wait for the
/// devices. All else that decides how a run continues is the same on every rank without a message: what is
/// due after a step (log, digest, comparison of the ranks, validation, checkpoint) follows from its number,
/// and whether a step was skipped from sums of the devices.
struct StepAgreement {
  bool stop_requested = false;  // a rank received a stop signal: this step is the last
  bool out_of_time = false;     // --max-minutes passed, by the clock of rank 0: likewise
  bool abandoned = false;       // a rank abandoned the step for a stop: all roll it back
  double flops = 0.0;           // of the model in this step, on all ranks
};

/// Agreements of the ranks of a run. The communicator must outlive the object.
class RankAgreement {
 public:
  explicit RankAgreement(Communicator& communicator) : communicator_(communicator) {}

  /// Whether this rank or another received a stop request, which is propagated to all. Between micro-batches:
  /// does not wait.
  bool stop_requested_anywhere();
  /// The agreement over `own`, what this rank says; its stop_requested is that of the signals. All ranks must
  /// call it, once a step.
  StepAgreement agree(const StepAgreement& own);
  /// Whether `holds` is true on any rank. All ranks must call it.
  bool any(bool holds);

 private:
  Communicator& communicator_;
  bool stop_propagated_ = false;
};

}  // namespace ventris
