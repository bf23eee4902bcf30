#pragma once

#include <cstdint>

#include "backend/context.h"

namespace ventris {

/// The k most probable words of each row: values are log-probabilities, log_softmax over the first `vocab`
/// columns, descending; equal values in order of index. `banned` words (-1 ends the list) are never returned,
/// and count in the softmax.
struct LogSoftmaxTopKArgs {
  ConstTensor logits;               // [rows, padded_vocab] T
  int64_t vocab;                    // columns that count
  int k;                            // 1 <= k <= vocab
  const int32_t* banned = nullptr;  // on the device: words never returned, ended by -1, or null
  float* values;                    // [rows, k]
  int32_t* indices;                 // [rows, k]
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
