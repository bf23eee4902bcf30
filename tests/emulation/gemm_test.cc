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
  VENTRIS_CUDA_CHECK(cudaMemset(p.device_result.view().data, 0, 5 * 6 * sizeof(float)));
  finish_copies();
  VENTRIS_CUDA_CHECK(cudaGraphLaunch(exec, cuda_stream()));
  expect_matches("c", p.device_result, p.result, DType::kF32);
  VENTRIS_CUDA_CHECK(cudaGraphExecDestroy(exec));
  VENTRIS_CUDA_CHECK(cudaGraphDestroy(graph));
}

/// Forward with ReLU, then a product that its bits mask; or, where cuBLASLt has no such product, an error.
TEST(CudaGemm, BitsOfReluMaskAnotherProductIfTheLibraryCan) {
  constexpr int64_t kRows = 24;
  constexpr int64_t kCols = 160;  // the bits of a row are padded to 256
  constexpr int64_t kInner = 32;
  for (const DType dtype : kDeviceDTypes) {
    SCOPED_TRACE(name_of(dtype));
    GemmProduct forward({.m = kRows, .n = kCols, .k = kInner}, dtype);
    GemmProduct backward({.m = kRows, .n = kCols, .k = 2 * kInner}, dtype);
    const Buffer bias = Buffer::random(1, kCols, dtype, 5);
    const DeviceMatrix device_bias(bias);
    const DeviceMatrix bits(kRows, relu_bits_cols(kCols), DType::kBF16);
    GemmArgs first =
        forward.args(forward.device_a.view(), forward.device_b.view(), forward.device_result.view());
    first.bias = device_bias.view();
    first.relu = true;
    first.relu_bits = bits.view();
    GemmArgs second =
        backward.args(backward.device_a.view(), backward.device_b.view(), backward.device_result.view());
    second.relu_bits = bits.view();
    const bool takes = gemm_takes_relu_bits(cuda_context(), first);
    EXPECT_EQ(gemm_takes_relu_bits(cuda_context(), second), takes);
    if (!takes) {
      EXPECT_THROW(gemm(cuda_context(), first), Error);
      continue;
    }
    gemm(cuda_context(), first);
    gemm(cuda_context(), second);
    const Buffer y = forward.device_result.get(cuda_stream());
    backward.on_cpu();
    Buffer masked = backward.result;
    int64_t zeros = 0;
    for (int64_t i = 0; i < y.size(); ++i) {
      if (y.get(i) > 0.0) continue;
      masked.set(i, 0.0);
      ++zeros;
    }
    EXPECT_GT(zeros, 0);
    EXPECT_LT(zeros, y.size());
    expect_matches("the masked product", backward.device_result, masked, dtype);
  }
}

}  // namespace
}  // namespace ventris::testing
