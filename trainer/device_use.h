// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "trainer/precision.h"

namespace ventris {

/// Floating-point operations a second of dense products in a resolved precision on a device of that model
/// ("NVIDIA H200"), by NVIDIA's data sheets: of the tensor cores in bf16 and tf32, of the others in f32. 0
/// for other models, and for a part of a device (MIG).
double peak_flops_per_second(std::string_view model, Precision precision);

/// How far the steps of an interval used the CUDA devices.
struct DeviceUse {
  double flops_per_second = 0.0;  // of the model on one device, the mean over the ranks
  double peak = 0.0;              // peak_flops_per_second() of the first rank's device
  int64_t memory_bytes = 0;       // in use by all programs on the first rank's device

  /// Model FLOP utilization; requires a known peak.
  double mfu() const { return flops_per_second / peak; }
};

}  // namespace ventris
