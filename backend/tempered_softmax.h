// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "backend/context.h"

namespace ventris {

/// probabilities[t] = [probabilities[t] +] factor * softmax(logits[t] / temperature), over the first `vocab`
/// columns (Hinton et al. 2015, "Distilling the Knowledge in a Neural Network", equation 1). With a factor of
/// 1 / n and accumulation they become the mean of n models.
struct TemperedSoftmaxArgs {
  ConstTensor logits;  // [rows, padded_vocab] T
  float temperature;   // above 0
  float factor;
  bool accumulate;
  int64_t first_row;      // index of the first row among the target rows of the micro-batch
  const int32_t* tokens;  // one number on the device: row t counts if first_row + t < tokens[0]; others stay
  int64_t vocab;          // columns that count
  Tensor probabilities;   // [rows, vocab] master
};
void tempered_softmax(Context& context, const TemperedSoftmaxArgs& args);

}  // namespace ventris
