// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/ops/op_list.h"
#include "backend/ops/packed_gemm.h"

namespace ventris {

#define VENTRIS_ARGUMENTS(name, Args) struct Args;
VENTRIS_OPS(VENTRIS_ARGUMENTS)
#undef VENTRIS_ARGUMENTS

/// The kernels of the CPU, compiled for one instruction set; arguments are checked. References, so that each
/// has a kernel.
struct CpuKernels {
  void (&chained_gemm)(Context&, const GemmArgs&);
  size_t (&packed_bytes)(int64_t rows, int64_t cols, Packing);
  void (&pack)(Context&, const PackArgs&);
  void (&packed_gemm)(Context&, const PackedGemmArgs&);
#define VENTRIS_KERNEL(name, Args) void (&name)(Context&, const Args&);
  VENTRIS_OPS(VENTRIS_KERNEL)
#undef VENTRIS_KERNEL
};

/// Those of instruction_set() (backend/device/instruction_set.h).
const CpuKernels& cpu_kernels();

}  // namespace ventris
