#include <gtest/gtest.h>

#include <cmath>

#include "tests/emulation/gemm_product.h"

namespace ventris::testing {
namespace {

void expect_right(const GemmCase& c, DType dtype) {
  GemmProduct p(c, dtype);
  p.on_cpu();
  p.on_device();
  Tolerance tolerance = tolerance_of(dtype);
  tolerance.absolute *= std::sqrt(static_cast<double>(c.k) + 1.0);
  SCOPED_TRACE(::testing::Message() << name_of(dtype) << " " << c.m << " x " << c.n << " x " << c.k
                                    << ", gap " << c.gap << (c.transpose_a ? " a^T" : "")
                                    << (c.transpose_b ? " b^T" : ""));
  expect_close("c", p.device_result.get(cuda_stream()), to_doubles(p.result), tolerance);
}

TEST(CudaGemm, MatchesCpuAtAwkwardSizesStridesAndTransposes) {
  const GemmCase sizes[] = {{1, 1, 1},    {1, 17, 5},      {7, 13, 31, 3},
                            {33, 65, 67}, {16, 64, 32, 8}, {2, 3, 1, 1}};
  for (const DType dtype : kDeviceDTypes) {
    for (GemmCase c : sizes) {
      for (const int transposes : {0, 1, 2, 3}) {
        c.transpose_a = (transposes & 1) != 0, c.transpose_b = (transposes & 2) != 0;
        expect_right(c, dtype);
      }
    }
  }
}

TEST(CudaGemm, AddsBiasAndClampsInTheSamePass) {
  for (const DType dtype : kDeviceDTypes) {
    for (const bool master : {false, true}) {
      expect_right({.m = 9, .n = 21, .k = 8, .bias = true, .master_result = master}, dtype);
      expect_right({.m = 9, .n = 21, .k = 8, .bias = true, .relu = true, .master_result = master}, dtype);
      expect_right({.m = 9, .n = 21, .k = 8, .gap = 3, .relu = true, .master_result = master}, dtype);
    }
  }
}

TEST(CudaGemm, TakesABiasThatIsRoundedAlready) {
  for (const int64_t terms : {0, 8}) {
    GemmProduct p({.m = 9, .n = 21, .k = terms, .bias = true}, DType::kBF16);
    const DeviceMatrix rounded(Buffer::random(1, p.c.n, DType::kBF16, 3));  // as `bias`, which is f32
    p.on_cpu();
    gemm(cuda_context(),
         p.args(p.device_a.view(), p.device_b.view(), rounded.view(), p.device_result.view()));
    SCOPED_TRACE(terms);
    Tolerance tolerance = tolerance_of(DType::kBF16);
    tolerance.absolute *= std::sqrt(static_cast<double>(terms) + 1.0);
    expect_close("c", p.device_result.get(cuda_stream()), to_doubles(p.result), tolerance);
  }
}

TEST(CudaGemm, WithoutRowsOrColumnsThereIsNothingToDo) {
  GemmProduct p({.m = 4, .n = 4, .k = 4}, DType::kBF16);
  const Tensor a = p.device_a.view();
  const Tensor c = p.device_result.view();
  EXPECT_NO_THROW(
      gemm(cuda_context(), {.a = a.row_range(0, 0), .b = p.device_b.view(), .c = c.row_range(0, 0)}));
}

TEST(CudaGemm, AccumulatesOnce) {
  for (const DType dtype : kDeviceDTypes) {
    for (const bool master : {false, true}) {
      expect_right(
          {.m = 12, .n = 20, .k = 33, .transpose_a = true, .accumulate = true, .master_result = master},
          dtype);
    }
  }
}

TEST(CudaGemm, ASumWithoutTermsIsTheBias) {
  for (const DType dtype : kDeviceDTypes) {
    expect_right({.m = 3, .n = 5, .k = 0, .gap = 2, .bias = true, .relu = true}, dtype);
    expect_right({.m = 3, .n = 5, .k = 0, .accumulate = true}, dtype);
    expect_right({.m = 3, .n = 5, .k = 0}, dtype);
  }
}

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
  const GemmArgs args = p.args(p.device_a.view().row_range(0, 4), p.device_b.view(), p.device_bias.view(),
                               p.device_result.view().row_range(0, 4));
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

}  // namespace
}  // namespace ventris::testing
