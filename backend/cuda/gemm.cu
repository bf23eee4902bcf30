// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/gemm.h"

#include <algorithm>

#include "backend/cuda/elements.cuh"
#include "backend/cuda/gemm_plans.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/device/context_cuda.h"
#include "backend/ops/cast.h"
#include "backend/ops/op_checks.h"

namespace ventris {
namespace {

using namespace cuda;

constexpr int kGemmThreads = 256;

/// c = bias, or 0, then ReLU: a product whose sum has no terms. One thread: one element.
template <typename T, typename Bias>
__global__ void empty_product(Rows<T> c, int64_t rows, int64_t cols, const Bias* bias, bool relu) {
  const int64_t i = int64_t{blockIdx.x} * kGemmThreads + threadIdx.x;
  if (i >= rows * cols) return;
  const float value = bias == nullptr ? 0.0F : load(bias[i % cols]);
  store(c.row(i / cols)[i % cols], relu && value < 0.0F ? 0.0F : value);
}

void run_empty(Context& context, const GemmArgs& args) {
  if (args.accumulate) return;
  dispatch_device_dtype(args.c.dtype, "gemm", [&](auto tag) {
    dispatch_device_dtype(args.bias ? args.bias.dtype : DType::kF32, "gemm", [&](auto bias_tag) {
      using T = decltype(tag);
      using Bias = decltype(bias_tag);
      launch(
          {.name = "empty_product", .grid = blocks_for(args.c.size(), kGemmThreads), .block = kGemmThreads},
          stream_of(context), empty_product<T, Bias>, rows_of<T>(args.c), args.c.rows, args.c.cols,
          args.bias ? args.bias.as<Bias>() : nullptr, args.relu);
    });
  });
}

uint32_t alignment_of(const void* address) {
  constexpr uintptr_t kMax = 16;
  const auto bits = reinterpret_cast<uintptr_t>(address) | kMax;
  return static_cast<uint32_t>(bits & (~bits + 1));
}

GemmPlanKey key_of(const GemmArgs& args, const void* bias) {
  return {.shape = {.dtype = args.a.dtype,
                    .c_dtype = args.c.dtype,
                    .transpose_a = args.transpose_a,
                    .transpose_b = args.transpose_b,
                    .bias = bias != nullptr,
                    .relu = args.relu,
                    .m = args.c.rows,
                    .n = args.c.cols,
                    .k = args.transpose_a ? args.a.rows : args.a.cols,
                    .a_stride = args.a.stride,
                    .b_stride = args.b.stride,
                    .c_stride = args.c.stride},
          .column_sums = static_cast<bool>(args.column_sums),
          .alignment = {.a = alignment_of(args.a.data),
                        .b = alignment_of(args.b.data),
                        .c = alignment_of(args.c.data),
                        .bias = alignment_of(args.column_sums ? args.column_sums.data : bias)}};
}

/// Calls body with a bias of the dtype of c, as cuBLASLt adds it.
template <typename Body>
void with_bias(Context& context, const GemmArgs& args, Body&& body) {
  const ArenaScope scope(context.scratch());
  ConstTensor bias = args.bias;
  if (bias && bias.dtype != args.c.dtype) {
    need_scratch(context, static_cast<size_t>(bias.cols) * size_of(args.c.dtype));
    const Tensor rounded = context.scratch().allocate(1, bias.cols, args.c.dtype);
    cast(context, {.source = bias, .destination = rounded});
    bias = rounded;
  }
  body(bias.data);
}

}  // namespace

void gemm_cuda(Context& context, const GemmArgs& args) {
  const DType dtype = args.a.dtype;
  VENTRIS_CHECK(dtype == DType::kF32 || dtype == DType::kBF16, "gemm on cuda supports f32 or bf16, not {}",
                name_of(dtype));
  if ((args.transpose_a ? args.a.rows : args.a.cols) == 0) return run_empty(context, args);
  with_bias(context, args, [&](const void* bias) {
    GemmPlans& plans = *context.cuda().gemm_plans;
    plans.run(plans.plan(key_of(args, bias), args, bias), args, bias);
  });
}

bool gemm_sums_columns_cuda(Context& context, const GemmArgs& args,
                            const std::function<void(const GemmArgs&)>& otherwise) {
  return context.cuda().gemm_plans->pays(key_of(args, nullptr), args, otherwise);
}

}  // namespace ventris
