// SPDX-License-Identifier: Apache-2.0
// What the program says where cuBLASLt refuses a product.
#include <cublasLt.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/emulation/controls.h"
#include "tests/emulation/gemm_product.h"

namespace ventris::testing {
namespace {

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
