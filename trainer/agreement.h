// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "trainer/train_options.h"

namespace ventris {

class Communicator;

namespace data {
class Corpus;
}

/// Compares the configuration, the corpus and its tokenizer over the ranks, key by key; paths and threads may
/// differ. Throws Error(kRanksDisagree) naming the key, the rank and both values, on every rank.
void check_same_run_on_all_ranks(Communicator& communicator, const TrainOptions& options,
                                 const data::Corpus& corpus);

}  // namespace ventris
