// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "backend/device/context.h"

namespace ventris {

/// The k most probable tokens of each row: values are log-probabilities, log_softmax over the first `vocab`
/// columns, descending; equal values in order of index. `banned` tokens (-1 ends the list), and those of a
/// row's own list, are never returned, and count in the softmax. If a row has fewer than k tokens left, the
/// remaining places hold the token -1 and -infinity.
struct LogSoftmaxTopKArgs {
  ConstTensor logits;               // [rows, padded_vocab] T
  int64_t vocab;                    // columns that count
  int k;                            // 1 <= k <= vocab
  const int32_t* banned = nullptr;  // on the device: tokens never returned, ended by -1, or null
  // On the device, or both null: row r may not have the tokens [row_banned_begin[r], row_banned_begin[r + 1])
  // of row_banned.
  const int32_t* row_banned = nullptr;
  const int32_t* row_banned_begin = nullptr;  // [rows + 1]
  float* values;                              // [rows, k]
  int32_t* indices;                           // [rows, k]
};
void log_softmax_top_k(Context& context, const LogSoftmaxTopKArgs& args);

/// log_probabilities[t] = log_softmax(logits[t])[labels[t]].
struct LogProbabilityArgs {
  ConstTensor logits;     // [rows, padded_vocab] T
  const int32_t* labels;  // [rows]
  int64_t vocab;
  float* log_probabilities;  // [rows]
};
void log_probability(Context& context, const LogProbabilityArgs& args);

}  // namespace ventris
