// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "backend/device/context.h"

namespace ventris {

/// Adds up the probabilities that several models give to every token, as logarithms, over the first `vocab`
/// columns: sum = log_softmax(logits) with `first`, else sum = log(e^sum + e^log_softmax(logits)).
/// The log_softmax of a sum over n models is the logarithm of their mean probability.
struct LogProbabilitySumArgs {
  ConstTensor logits;  // [rows, padded_vocab] T
  int64_t vocab;       // columns that count
  bool first;          // overwrites sum
  Tensor sum;          // [rows, at least vocab] master; other columns are not changed
};
void log_probability_sum(Context& context, const LogProbabilitySumArgs& args);

}  // namespace ventris
