// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cpu/kernel_table.h"
#include "backend/device/context.h"
#include "backend/device/has_cuda.h"

namespace ventris {

#define VENTRIS_KERNEL(name, Args) void name##_cuda(Context& context, const Args& args);
VENTRIS_OPS(VENTRIS_KERNEL)
#undef VENTRIS_KERNEL

/// Dispatch: kernels::NAME(context, args) runs the kernel of an operation (backend/ops/op_list.h) for the
/// device of the context.
namespace kernels {

#define VENTRIS_DISPATCH(name, Args)                                            \
  inline void name(Context& context, const Args& args) {                        \
    if constexpr (kHasCuda) {                                                   \
      if (context.device() == Device::kCuda) return name##_cuda(context, args); \
    }                                                                           \
    cpu_kernels().name(context, args);                                          \
  }
VENTRIS_OPS(VENTRIS_DISPATCH)
#undef VENTRIS_DISPATCH

}  // namespace kernels
}  // namespace ventris
