// SPDX-License-Identifier: Apache-2.0
// The kernels of one instruction set: this file and all that it uses are compiled once for each set
// (cmake/instruction_sets.cmake), and no other symbol of these objects is visible.
#include "backend/cpu/kernel_table.h"
#include "backend/cpu/gemm.h"

#ifndef VENTRIS_KERNEL_TABLE
#define VENTRIS_KERNEL_TABLE ventris_kernels
#endif

namespace ventris {

#define VENTRIS_KERNEL(name, Args) void name##_cpu(Context& context, const Args& args);
VENTRIS_OPS(VENTRIS_KERNEL)
#undef VENTRIS_KERNEL

extern "C" {
extern const CpuKernels VENTRIS_KERNEL_TABLE;
// clang-format off
constinit const CpuKernels VENTRIS_KERNEL_TABLE = {
    .chained_gemm = chained_gemm_cpu,
    .packed_bytes = packed_bytes_cpu,
    .pack = pack_cpu,
    .packed_gemm = packed_gemm_cpu,
#define VENTRIS_ROW(name, Args) .name = name##_cpu,
    VENTRIS_OPS(VENTRIS_ROW)
#undef VENTRIS_ROW
};
// clang-format on
}

}  // namespace ventris
