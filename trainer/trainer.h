// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "backend/device/context.h"
#include "trainer/train_options.h"
#include "trainer/train_profile.h"

namespace ventris {

class Communicator;
class RunStatus;

enum class TrainEnd { kDone, kStoppedOnRequest };

/// The result of a run, for the closing message.
struct TrainResult {
  TrainEnd end = TrainEnd::kDone;
  int64_t step = 0;
  int64_t best_step = 0;
  double best_metric = 0.0;
  std::string valid_metric;  // bleu, chrf, loss or perplexity: the meaning of best_metric
  std::string last_checkpoint;

  // Of this run only, over all ranks, without validation and checkpoints.
  double target_tokens_per_second = 0.0;
  double flops_per_second = 0.0;  // of the model (model/flop_count.h)
  int64_t peak_memory_bytes = 0;  // resident, summed over the ranks

  std::optional<TrainProfile> profile = {};  // with TrainOptions::profile; of this rank
};

/// Trains with the options on all ranks: `command` is recorded in the run folder. Every rank returns the same
/// result, except for the profile. Throws Error with the documented exit codes: kRanksDisagree, kDiverged (10
/// steps in a row with NaN or Inf, naming its first occurrence), ... `status`, if given, is notified of the
/// start, of steps and of checkpoints.
TrainResult train(Context& context, Communicator& communicator, const TrainOptions& options,
                  const std::string& command, RunStatus* status = nullptr);

}  // namespace ventris
