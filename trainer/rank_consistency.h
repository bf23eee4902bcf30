// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/options/option_table.h"
#include "trainer/train_options.h"

namespace ventris {

class Communicator;

namespace data {
class Corpus;
}

/// Compares options over the ranks, one by one; but of a path only whether there is one, and not those with
/// kOfRank. Throws Error(kRanksDisagree) naming the option, the rank and both values, on every rank.
void check_same_options_on_all_ranks(Communicator& communicator, const OptionTable& options);

/// Compares options, mix, corpus and tokenizers of a run over the ranks. Same errors.
void check_same_run_on_all_ranks(Communicator& communicator, const TrainOptions& options,
                                 const data::Corpus& corpus);

}  // namespace ventris
