// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "backend/device/context.h"
#include "data/batches.h"
#include "trainer/checkpoint/checkpoint_saver.h"
#include "trainer/train_options.h"
#include "trainer/train_profile.h"

namespace ventris {

class Communicator;
class Observer;
struct Run;

enum class TrainEnd { kDone, kStoppedOnRequest };

/// The result of a run, for the closing message.
struct TrainResult {
  TrainEnd end = TrainEnd::kDone;
  int64_t step = 0;
  int64_t best_step = 0;
  double best_metric = 0.0;
  std::string valid_metric;  // bleu, chrf, loss or perplexity: the meaning of best_metric
  std::string last_checkpoint;

  // Measurements of this run only, over all ranks, without validation and checkpoints.
  double target_tokens_per_second = 0.0;
  double flops_per_second = 0.0;  // of the model (model/flop_count.h)
  int64_t peak_memory_bytes = 0;  // resident, summed over the ranks

  std::optional<TrainProfile> profile = {};  // with TrainOptions::profile; of this rank
};

/// Trains with the options on all ranks: `command` is recorded in the run folder. Every rank returns the same
/// result, except for the profile. Throws Error with the documented exit codes: kRanksDisagree, kDiverged (10
/// steps in a row with NaN or Inf, naming its first occurrence), ... `observer`, if given, is notified on
/// every rank (trainer/observer.h).
TrainResult train(Context& context, Communicator& communicator, const TrainOptions& options,
                  const std::string& command, Observer* observer = nullptr);

/// The parts of train(), for a run of make_run() (trainer/run.h). All ranks must call them.

/// Counts the step and returns its sentence pairs.
data::GlobalBatch begin_step(Run& run);
/// Enqueues the whole step: forward and backward, the sums over the ranks, Adam (TrainingStep). False if it
/// was abandoned for a stop, on all ranks: then the state is that after the previous step.
bool compute_step(Run& run, const data::GlobalBatch& batch);
/// Advances past the batch. Throws Error(kDiverged) if training diverged (trainer/divergence.h).
void complete_step(Run& run, const data::GlobalBatch& batch);
/// Validates; the best model so far is saved. On a stop request it is abandoned, and marked as pending.
void validate(Run& run);
/// Copies the state; rank 0 writes it during training.
void save(Run& run, const std::optional<CheckpointSaver::Best>& best = {});
/// Validates and saves the last state, and waits until it is on the disk.
TrainResult finish(Run& run);

}  // namespace ventris
