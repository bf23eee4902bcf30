#pragma once

#include <string>

#include "backend/tensor.h"
#include "trainer/train_options.h"

namespace ventris {

class Communicator;
class Context;

namespace data {
class Corpus;
}

/// Compares the configuration, the corpus and its tokenizer over the ranks, key by key; paths and threads may
/// differ. Throws Error(kRanksDisagree) naming the key, the rank and both values, on every rank.
void check_same_run_on_all_ranks(Communicator& communicator, const TrainOptions& options,
                                 const data::Corpus& corpus);

/// Throws Error(kRanksDisagree) where a rank holds other bits in `range`, on its device, than rank 0. `what`
/// names the range.
void check_same_bits_on_all_ranks(Context& context, Communicator& communicator, const std::string& what,
                                  ConstTensor range);

/// Makes a contiguous range, on the device of every rank, that of rank 0, in pieces.
void copy_from_first_rank(Context& context, Communicator& communicator, Tensor range);

}  // namespace ventris
