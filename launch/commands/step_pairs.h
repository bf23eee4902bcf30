// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "trainer/options/option_table.h"

namespace ventris {

/// Steps whose sentence pairs are to be shown.
struct StepPairsRequest {
  std::string steps;   // A:B; "": none
  std::string corpus;  // present path of the corpus; "": as recorded
};

void add_step_pair_options(StepPairsRequest& request, OptionTable& table);

/// Prints a JSON object for each sentence pair of the steps of a run folder. Returns 0. Throws Error(kUsage)
/// for a path that is no folder, and for steps of a plan after the newest checkpoint, Error(kMissingInput)
/// for a corpus that is not there, Error(kBadConfiguration) for a corpus other than the run's, and the errors
/// of the readers.
int print_step_pairs(const StepPairsRequest& request, const std::string& folder);

}  // namespace ventris
