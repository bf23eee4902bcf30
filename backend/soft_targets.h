// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "backend/context.h"

namespace ventris {

/// For each row a distribution over the vocabulary that a model learns beside its labels (cross_entropy.h),
/// of all tokens or of a few. The probabilities of a row sum to 1.
struct SoftTargets {
  ConstTensor probabilities;  // [rows, count] master; empty: there are no soft targets
  const int32_t* indices;     // [rows, count] tokens, none twice in a row; null: all tokens, in order
  float weight;               // of these targets in the loss, 0 to 1; the labels have the rest
  float temperature;          // of the softmax that learns them and of the one that made them; above 0

  explicit operator bool() const { return static_cast<bool>(probabilities); }
};

/// Most tokens of a row of soft_targets().
inline constexpr int kMostSoftTargets = 256;

/// The k most probable tokens of each row, descending and equal ones in order of index, with their
/// probabilities divided by the sum of these. With NaN among its scores a row has NaN.
struct SoftTargetsArgs {
  ConstTensor scores;     // [rows, at least vocab]: logits of T, or probabilities of master
  bool are_logits;        // probabilities are softmax(scores / temperature)
  float temperature;      // above 0; of logits
  int64_t first_row;      // index of the first row among the target rows of the micro-batch
  const int32_t* tokens;  // one number on the device: row t counts if first_row + t < tokens[0]; others stay
  int64_t vocab;          // columns that count
  int k;                  // 1 <= k <= vocab, at most kMostSoftTargets
  int32_t* indices;       // [rows, k]
  Tensor probabilities;   // [rows, k] master
};
void soft_targets(Context& context, const SoftTargetsArgs& args);

}  // namespace ventris
