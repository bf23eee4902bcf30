// SPDX-License-Identifier: Apache-2.0
#include "trainer/device_use.h"

namespace ventris {
namespace {

/// TFLOP/s. Data sheets give bf16 and tf32 with 2:4 sparsity; these are dense: half of it. tf32 is half of
/// bf16, on the L40S within 1%.
struct Peak {
  std::string_view model;  // as the driver names it
  double bf16;
  double f32;
};
constexpr Peak kPeaks[] = {
    // "NVIDIA A100 Tensor Core GPU" data sheet: SXM and PCIe alike.
    {"NVIDIA A100-SXM4-40GB", 312, 19.5},
    {"NVIDIA A100-SXM4-80GB", 312, 19.5},
    {"NVIDIA A100-PCIE-40GB", 312, 19.5},
    {"NVIDIA A100 80GB PCIe", 312, 19.5},
    // "NVIDIA H100 Tensor Core GPU" data sheet: SXM, PCIe, NVL.
    {"NVIDIA H100 80GB HBM3", 989, 67},
    {"NVIDIA H100 PCIe", 756, 51},
    {"NVIDIA H100 NVL", 835, 60},
    // "NVIDIA H200 Tensor Core GPU" data sheet: SXM, NVL.
    {"NVIDIA H200", 989, 67},
    {"NVIDIA H200 NVL", 835, 60},
    // "NVIDIA L40S" data sheet.
    {"NVIDIA L40S", 362, 91.6},
    // "NVIDIA HGX B200" data sheet, an eighth of it.
    {"NVIDIA B200", 2250, 75},
};

}  // namespace

double peak_flops_per_second(std::string_view model, Precision precision) {
  for (const Peak& peak : kPeaks) {
    if (peak.model != model) continue;
    if (precision == Precision::kBF16) return 1e12 * peak.bf16;
    return 1e12 * (precision == Precision::kTf32 ? peak.bf16 / 2.0 : peak.f32);
  }
  return 0.0;
}

}  // namespace ventris
