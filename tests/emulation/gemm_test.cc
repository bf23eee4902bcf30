// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/emulation/gemm_product.h"

namespace ventris::testing {
namespace {

TEST(CudaGemm, RefusesF64) {
  GemmProduct p({.m = 2, .n = 2, .k = 2}, DType::kF64);
  EXPECT_THROW(p.on_device(), Error);
}

TEST(CudaGemm, AShapeThatWasMetCanBeCapturedAndANewOneIsRefused) {
  GemmProduct p({.m = 5, .n = 6, .k = 7}, DType::kF32);
  p.on_cpu();
  p.on_device();
  VENTRIS_CUDA_CHECK(cudaStreamSynchronize(cuda_stream()));
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  VENTRIS_CUDA_CHECK(cudaStreamBeginCapture(cuda_stream(), cudaStreamCaptureModeGlobal));
  p.on_device();
  const GemmArgs args =
      p.args(p.device_a.view().row_range(0, 4), p.device_b.view(), p.device_result.view().row_range(0, 4));
  EXPECT_THROW(gemm(cuda_context(), args), Error);
  EXPECT_THROW(cuda_context().reserve_scratch(size_t{1} << 30), Error)
      << "scratch must not grow in a capture";
  VENTRIS_CUDA_CHECK(cudaStreamEndCapture(cuda_stream(), &graph));
  VENTRIS_CUDA_CHECK(cudaGraphInstantiate(&exec, graph));
  p.device_result.forget();
  VENTRIS_CUDA_CHECK(cudaGraphLaunch(exec, cuda_stream()));
  expect_close("c", p.device_result, to_doubles(p.result), DType::kF32);
  VENTRIS_CUDA_CHECK(cudaGraphExecDestroy(exec));
  VENTRIS_CUDA_CHECK(cudaGraphDestroy(graph));
}

}  // namespace
}  // namespace ventris::testing
