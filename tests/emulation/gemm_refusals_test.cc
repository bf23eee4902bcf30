// SPDX-License-Identifier: Apache-2.0
// What cuBLASLt refuses, by its twin (cublas_lt.cc), and what the program does then: another way where it has
// one, an error that names the product where arguments are wrong.
#include <cublasLt.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>

#include "tests/emulation/controls.h"
#include "tests/emulation/gemm_product.h"

namespace ventris::testing {
namespace {

constexpr int64_t kM = 64, kN = 48, kK = 32;

/// Of d = a b in bf16, by columns, as cuBLASLt describes products.
class Descriptions {
 public:
  explicit Descriptions(int64_t b_gap)
      : a(layout(kM, kK, 0)), b(layout(kK, kN, b_gap)), d(layout(kM, kN, 0)) {
    EXPECT_EQ(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), CUBLAS_STATUS_SUCCESS);
  }
  ~Descriptions() {
    for (cublasLtMatrixLayout_t one : {a, b, d}) static_cast<void>(cublasLtMatrixLayoutDestroy(one));
    static_cast<void>(cublasLtMatmulDescDestroy(operation));
  }
  Descriptions(const Descriptions&) = delete;
  Descriptions& operator=(const Descriptions&) = delete;

  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a, b, d;

 private:
  /// `gap` elements between columns.
  static cublasLtMatrixLayout_t layout(int64_t rows, int64_t cols, int64_t gap) {
    cublasLtMatrixLayout_t made = nullptr;
    EXPECT_EQ(cublasLtMatrixLayoutCreate(&made, CUDA_R_16BF, static_cast<uint64_t>(rows),
                                         static_cast<uint64_t>(cols), rows + gap),
              CUBLAS_STATUS_SUCCESS);
    return made;
  }
};

/// The last algorithm of the heuristic for packs of 16 bytes and a workspace that is large enough.
cublasLtMatmulAlgo_t found_algorithm(cublasLtHandle_t handle) {
  cublasLtMatmulPreference_t preference = nullptr;
  EXPECT_EQ(cublasLtMatmulPreferenceCreate(&preference), CUBLAS_STATUS_SUCCESS);
  constexpr uint64_t kWorkspace = 1 << 20;
  EXPECT_EQ(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                 &kWorkspace, sizeof(kWorkspace)),
            CUBLAS_STATUS_SUCCESS);
  const Descriptions is(0);
  std::array<cublasLtMatmulHeuristicResult_t, 8> results{};
  int found = 0;
  EXPECT_EQ(cublasLtMatmulAlgoGetHeuristic(handle, is.operation, is.a, is.b, is.d, is.d, preference,
                                           static_cast<int>(results.size()), results.data(), &found),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(found, 3);
  static_cast<void>(cublasLtMatmulPreferenceDestroy(preference));
  return results[static_cast<size_t>(std::max(found, 1) - 1)].algo;
}

TEST(CublasLtTwin, RunsAProductOnlyAsItsAlgorithmWasFound) {
  cublasLtHandle_t handle = nullptr;
  ASSERT_EQ(cublasLtCreate(&handle), CUBLAS_STATUS_SUCCESS);
  const cublasLtMatmulAlgo_t algorithm = found_algorithm(handle);
  const DeviceMatrix a(kK, kM, DType::kBF16, 8);
  const DeviceMatrix b(kN, kK, DType::kBF16, 8);
  const DeviceMatrix d(kN, kM, DType::kBF16, 8);
  const DeviceMatrix workspace(1, 1 << 18, DType::kF32);
  struct Case {
    const char* what;
    int64_t a_offset = 0, d_offset = 0, workspace_offset = 0;  // bytes
    int64_t b_gap = 0;
    size_t workspace_bytes = size_t{1} << 20;
    cublasStatus_t status = CUBLAS_STATUS_NOT_SUPPORTED;
  };
  const Case cases[] = {
      {.what = "nothing spoilt", .status = CUBLAS_STATUS_SUCCESS},
      {.what = "a less aligned a", .a_offset = 8},
      {.what = "a less aligned d", .d_offset = 2},
      {.what = "an odd stride", .b_gap = 1},
      {.what = "a small workspace", .workspace_bytes = 1024, .status = CUBLAS_STATUS_INVALID_VALUE},
      {.what = "a less aligned workspace", .workspace_offset = 8, .status = CUBLAS_STATUS_INVALID_VALUE},
  };
  const float one = 1.0F;
  const float zero = 0.0F;
  const auto at = [](const DeviceMatrix& matrix, int64_t offset) {
    return static_cast<char*>(matrix.view().data) + offset;
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    const Descriptions is(c.b_gap);
    EXPECT_EQ(cublasLtMatmul(handle, is.operation, &one, at(a, c.a_offset), is.a, at(b, 0), is.b, &zero,
                             at(d, c.d_offset), is.d, at(d, c.d_offset), is.d, &algorithm,
                             at(workspace, c.workspace_offset), c.workspace_bytes, cuda_stream()),
              c.status);
  }
  VENTRIS_CUDA_CHECK(cudaStreamSynchronize(cuda_stream()));
  static_cast<void>(cublasLtDestroy(handle));
}

/// Answers other than the right ones, during a test.
class CudaGemmRefusals : public ::testing::Test {
 protected:
  void TearDown() override { emulation::blas_answers() = {}; }
};

TEST_F(CudaGemmRefusals, AreErrorsThatNameTheProduct) {
  struct Case {
    cublasStatus_t answer;
    ExitCode code;
    const char* says;
  };
  for (const Case& c : {Case{CUBLAS_STATUS_INVALID_VALUE, ExitCode::kInternal, "CUBLAS_STATUS_INVALID_VALUE"},
                        Case{CUBLAS_STATUS_NOT_SUPPORTED, ExitCode::kUnavailable, "no algorithm"}}) {
    GemmProduct p({.m = 11, .n = 13, .k = 17}, DType::kBF16);
    emulation::blas_answers().heuristic = c.answer;
    Context context({.device = Device::kCuda, .scratch_bytes = 1 << 16});
    try {
      p.on_device(context);
      ADD_FAILURE() << "no error: " << c.says;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), c.code);
      for (const char* part : {"gemm bf16", "m 11 n 13 k 17", c.says})
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace ventris::testing
