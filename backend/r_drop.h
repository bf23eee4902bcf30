// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/context.h"
#include "backend/cross_entropy.h"

namespace ventris {

/// R-Drop (Liang et al. 2021, "R-Drop: Regularized Dropout for Neural Networks", section 2.2): two passes
/// over the same tokens with different dropout, whose distributions p and r are drawn together. Half of
/// equation (4), so that the loss is that of one pass where both are equal:
///   loss[t] = weights[t] ((CE(p) + CE(r)) / 2 + alpha / 4 (KL(p || r) + KL(r || p))),
///   nll[t] = -weights[t] (log p(label[t]) + log r(label[t])) / 2,
/// with the label-smoothed cross-entropy CE of CrossEntropyArgs, and the gradients in place of the logits.
struct RDropArgs {
  CrossEntropyArgs pass;  // of p, with `gradient`; its loss and nll are those of both passes
  Tensor second;          // [rows, padded_vocab] T: the logits of r; overwritten by their gradient
  float alpha;            // not negative
};
void r_drop(Context& context, const RDropArgs& args);

}  // namespace ventris
