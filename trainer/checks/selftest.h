// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model/transformer_config.h"
#include "trainer/train_options.h"

namespace ventris {

class Context;

/// The shapes at which kernels are tested.
struct SelftestOptions {
  TransformerConfig model;  // widths, heads, vocabulary, dropout
  std::vector<Precision> precisions = {Precision::kF32, Precision::kBF16};  // resolved
  int64_t rows = 0;  // tokens of one side of a micro-batch
};

/// One kernel at one shape.
struct KernelResult {
  std::string kernel;   // the operation of backend/ops.h
  std::string shape;    // of its widest operand, rows x columns; of a product m x n x k
  std::string dtype;    // of the activations, tf32 of such products; for the update, of the parameters
  double error = 0.0;   // the greatest, as a part of its tolerance; infinite if a result is not finite
  std::string finding;  // where a result is wrong, or the error of the operation; "" if all are right

  bool ok() const { return finding.empty(); }
};

/// Runs every operation of backend/ops.h, forward and backward, on the context's device, and compares all
/// results with plain loops over f64 on the CPU. `tell` gets each result as it is known; the return value
/// holds them in the same order.
///
/// The loops share no code with the kernels, neither with those of CUDA nor with those of the CPU's
/// instruction sets (of products they are gemm_reference()): what is wrong in one of these, in its compiled
/// code or in the processor under it is found on either device. A comparison of two instruction sets would
/// not find what is wrong in both, and would compare nothing on a processor with one.
///
/// Operands are a function of the shapes alone (Philox4x32-10). Results that an operation overwrites hold NaN
/// before it, so that what it does not write is found. Widths are those of the model. Products have
/// options.rows rows, among which kDistinctRows are repeated, as the loops would take minutes for all: so the
/// device chooses the algorithms that it will train with. All else has fewer rows.
///
/// In tf32 the products are those after use_tf32() (backend/gemm_choices.h) and all else is in f32; the
/// context is left without it.
///
/// Throws Error(kUnavailable) if the device or its memory is not available. Any other error of an operation
/// is its finding.
std::vector<KernelResult> selftest(Context& context, const SelftestOptions& options,
                                   const std::function<void(const KernelResult&)>& tell);

/// Rows of a micro-batch on a device, when one rank trains with the batches of `train`. On the CPU two blocks
/// of a product are enough.
int64_t selftest_rows(const TrainOptions& train, const Context& context);

/// Narrow shapes, about a second.
SelftestOptions short_selftest();

}  // namespace ventris
