// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/ops/op_list.h"
#include "backend/ops/packed_gemm.h"

namespace ventris {

#define VENTRIS_ARGUMENTS(name, Args) struct Args;
VENTRIS_OPS(VENTRIS_ARGUMENTS)
#undef VENTRIS_ARGUMENTS

template <typename Args>
using Kernel = void(Context&, const Args&);

/// The kernels of the CPU, compiled for one instruction set; arguments are checked. References, so that each
/// has a kernel.
struct CpuKernels {
  Kernel<GemmArgs>& chained_gemm;
  size_t (&packed_bytes)(int64_t rows, int64_t cols, Packing);
  Kernel<PackArgs>& pack;
  Kernel<PackedGemmArgs>& packed_gemm;
#define VENTRIS_KERNEL(name, Args) Kernel<Args>& name;
  VENTRIS_OPS(VENTRIS_KERNEL)
#undef VENTRIS_KERNEL
};

/// The kernels of instruction_set() (backend/device/instruction_set.h).
const CpuKernels& cpu_kernels();

}  // namespace ventris
