// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ventris {

class Context;

/// The algorithms that gemm() uses on CUDA, on which the bits of its sums depend
/// (backend/cuda/gemm_plans.cuh), so that all ranks of a run, and those that continue or repeat it, use the
/// same ones; and whether they use TF32. A CPU has no choice.

/// From now on products of f32 round their factors to TF32, which has 10 bits of mantissa, for tensor cores,
/// and sum in f32; or no longer. Not at first. Their choices are others than those of f32.
void use_tf32(Context& context, bool use);

/// The choices for all shapes that have occurred so far, as text with the device and the libraries for which
/// they are valid, also if nothing is chosen by time (VENTRIS_TUNE_GEMM=0). "" on the CPU.
std::string gemm_choices(Context& context);
/// Prefers choices of that text for shapes that have not occurred yet. False, with no effect, if they are not
/// valid for this device and its libraries; "" is valid.
bool prefer_gemm_choices(Context& context, const std::string& choices);
/// Chooses nothing by time from now on.
void end_gemm_tuning(Context& context);

}  // namespace ventris
