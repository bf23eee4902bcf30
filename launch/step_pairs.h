// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "launch/option_table.h"
#include "trainer/train_options.h"

namespace ventris {

struct Job;

/// Steps whose sentence pairs are to be shown.
struct StepPairsRequest {
  std::string steps;                              // A:B; "": none
  std::string corpus;                             // present path of the corpus of a run; "": as recorded
  TrainOptions batches = preset_options("base");  // seed, batches and logical shards, for a corpus file
};

void add_step_pair_options(StepPairsRequest& request, OptionTable& table);

/// Prints a line for each sentence pair of the steps of a run folder, or of a run on a corpus file. Returns
/// 0. Throws Error(kUsage) for contradictory options and for steps that the run has not recorded,
/// Error(kMissingInput) for a corpus that is not there, Error(kBadConfiguration) for a corpus other than the
/// run's, and the errors of the readers.
int print_step_pairs(const StepPairsRequest& request, const std::string& path, bool json, const Job& job);

}  // namespace ventris
