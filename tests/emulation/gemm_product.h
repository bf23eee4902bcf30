#pragma once

#include "backend/gemm.h"
#include "tests/emulation/device_buffer.h"

namespace ventris::testing {

struct GemmCase {
  int64_t m, n, k;
  int64_t gap = 0;  // between rows of all operands
  bool transpose_a = false;
  bool transpose_b = false;
  bool bias = false;
  bool relu = false;
  bool accumulate = false;
  bool master_result = false;
};

/// One product on the CPU and on the device.
struct GemmProduct {
  GemmProduct(const GemmCase& c, DType dtype)
      : c(c),
        result_dtype(c.master_result ? DType::kF32 : dtype),
        a(Buffer::random(c.transpose_a ? c.k : c.m, c.transpose_a ? c.m : c.k, dtype, 1, 0.5)),
        b(Buffer::random(c.transpose_b ? c.n : c.k, c.transpose_b ? c.k : c.n, dtype, 2, 0.5)),
        bias(Buffer::random(1, c.n, DType::kF32, 3)),
        result(Buffer::random(c.m, c.n, result_dtype, 4)),
        device_a(a, c.gap),
        device_b(b, c.gap),
        device_bias(bias),
        device_result(result, c.gap) {}

  GemmArgs args(const Tensor& a_view, const Tensor& b_view, const Tensor& bias_view,
                const Tensor& c_view) const {
    return {.a = a_view,
            .b = b_view,
            .c = c_view,
            .transpose_a = c.transpose_a,
            .transpose_b = c.transpose_b,
            .bias = c.bias ? ConstTensor(bias_view) : ConstTensor{},
            .relu = c.relu,
            .accumulate = c.accumulate};
  }
  void on_cpu() { gemm(cpu_context(), args(a.view(), b.view(), bias.view(), result.view())); }
  void on_device(Context& context = cuda_context()) {
    gemm(context, args(device_a.view(), device_b.view(), device_bias.view(), device_result.view()));
  }

  GemmCase c;
  DType result_dtype;
  Buffer a, b, bias, result;
  DeviceMatrix device_a, device_b, device_bias, device_result;
};

}  // namespace ventris::testing
