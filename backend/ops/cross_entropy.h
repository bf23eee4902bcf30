// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "backend/device/context.h"

namespace ventris {

/// Label-smoothed cross-entropy (section 5.4 of the paper; the target distribution is (1 - smoothing) on the
/// label plus smoothing / vocab on every token, as in Szegedy et al. 2016), with the gradient in place of the
/// logits.
///   loss[t] = -weights[t] sum_w q(w) log p(w), nll[t] = -weights[t] log p(label[t]),
///   p = softmax over the first `vocab` columns
///   d_logits[t][w] = gradient_scale * weights[t] * (p(w) - q(w)), zero for w >= vocab and for rows that do
///   not count
/// Weights of 1 give the same bits as none.
struct CrossEntropyArgs {
  Tensor logits;          // [rows, padded_vocab] T; overwritten by the gradient if `gradient`
  const int32_t* labels;  // [rows]
  const float* weights;   // [rows], finite and not negative; null: all 1
  int64_t first_row = 0;  // index of the first row among the target rows of the micro-batch
  const int32_t* tokens;  // one number on the device: row t counts if first_row + t < tokens[0]
  int64_t vocab;          // columns that count
  float smoothing;
  bool gradient = true;
  const float* gradient_scale = nullptr;  // one number on the device; required if `gradient`
  Tensor loss;                            // [1, rows] master; zero in rows that do not count
  Tensor nll;                             // [1, rows] master; zero in rows that do not count
};
void cross_entropy(Context& context, const CrossEntropyArgs& args);

/// totals[0] += sum of loss, totals[1] += sum of nll, in f64 and in row order.
struct LossSumArgs {
  ConstTensor loss;  // [1, rows] master
  ConstTensor nll;   // [1, rows] master
  double* totals;    // [2] on the device
};
void loss_sum(Context& context, const LossSumArgs& args);

}  // namespace ventris
