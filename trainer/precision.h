// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "backend/device/arena.h"
#include "backend/device/dtype.h"

namespace ventris {

/// The arithmetic of training, --precision. kAuto is a request, which resolved_precision() replaces.
/// kTf32 stores what kF32 stores and rounds the factors of products to TF32 (use_tf32 of
/// backend/ops/gemm_choices.h).
enum class Precision { kAuto, kF32, kTf32, kBF16 };

const char* name_of(Precision precision);
/// kAuto for a name that is none.
Precision precision_named(const std::string& name);
/// Of activations and of the parameters that are multiplied. Requires that the precision is resolved.
DType dtype_of(Precision precision);

/// bf16 on CUDA, where every supported device has it, and f32 on the CPU.
Precision default_precision(Device device);
/// What is given, unless that is kAuto: then what the checkpoint of a resumed run has `recorded`, or, where
/// that is kAuto too, default_precision(). Throws Error(kUsage) for tf32 on the CPU.
Precision resolved_precision(Precision given, Precision recorded, Device device);
/// The resolved precision and where it is from, for people.
std::string describe_precision(Precision given, Precision recorded, Device device);

}  // namespace ventris
