// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/ops/gemm.h"
#include "tests/emulation/device_buffer.h"
#include "tests/support/operands.h"

namespace ventris::testing {

struct GemmCase {
  int64_t m, n, k;
  bool accumulate = false;
};

/// One product on the CPU and on the device.
struct GemmProduct {
  GemmProduct(const GemmCase& c, DType dtype)
      : c(c),
        a(Buffer::random(c.m, c.k, dtype, 1, 0.5)),
        b(Buffer::random(c.k, c.n, dtype, 2, 0.5)),
        result(Buffer::random(c.m, c.n, dtype, 4)),
        device_a(a),
        device_b(b),
        device_result(result) {}

  GemmArgs args(const Tensor& a_view, const Tensor& b_view, const Tensor& c_view) const {
    return {.a = a_view, .b = b_view, .c = c_view, .accumulate = c.accumulate};
  }
  void on_cpu() { gemm(cpu_context(), args(a.view(), b.view(), result.view())); }
  void on_device(Context& context = cuda_context()) {
    gemm(context, args(device_a.view(), device_b.view(), device_result.view()));
  }

  GemmCase c;
  Buffer a, b, result;
  MatrixOperand device_a, device_b, device_result;
};

}  // namespace ventris::testing
