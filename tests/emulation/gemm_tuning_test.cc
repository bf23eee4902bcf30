// SPDX-License-Identifier: Apache-2.0
#include <cublasLt.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "backend/ops/gemm_choices.h"
#include "tests/emulation/controls.h"
#include "tests/emulation/gemm_product.h"
#include "tests/emulation/timed_products.h"

namespace ventris::testing {
namespace {

constexpr GemmCase kTuned = {.m = 64, .n = 128, .k = 64};

class CudaGemmTuning : public ::testing::Test {
 protected:
  /// The number of products that it takes to compute one.
  static int64_t run(Context& context, GemmProduct& p) {
    const int64_t before = emulation::launches()["product"];
    p.on_device(context);
    const int64_t enqueued = emulation::launches()["product"] - before;
    EXPECT_EQ(cudaStreamSynchronize(cuda::stream_of(context)), cudaSuccess);
    return enqueued;
  }
  /// Of a new context.
  static int64_t run(GemmProduct& p) {
    Context context({.device = Device::kCuda, .scratch_bytes = 1 << 16});
    return run(context, p);
  }
  const TimedProducts timed_;
};

TEST_F(CudaGemmTuning, AShapeIsTimedOnce) {
  for (const bool accumulate : {false, true}) {
    const GemmCase c{.m = 64, .n = 64, .k = accumulate ? 320 : 384, .accumulate = accumulate};
    GemmProduct first(c, DType::kF32);
    GemmProduct second(c, DType::kF32);
    Context context({.device = Device::kCuda, .scratch_bytes = 1 << 16});
    EXPECT_GT(run(context, first), 3) << "the candidates are timed";
    EXPECT_EQ(run(context, second), 1) << "nothing is timed again";
    expect_same_bits("c", first.device_result, second.device_result);
    first.on_cpu();
    expect_close("c", first.device_result, to_doubles(first.result), DType::kF32);
  }
}

TEST_F(CudaGemmTuning, ShapesOfDecodingAreNotTimed) {
  GemmProduct p({.m = 63, .n = 64, .k = 64}, DType::kF32);
  EXPECT_EQ(run(p), 1);
}

TEST_F(CudaGemmTuning, ZeroTakesTheFirstAlgorithm) {
  setenv("VENTRIS_TUNE_GEMM", "0", 1);
  GemmProduct p(kTuned, DType::kF32);
  EXPECT_EQ(run(p), 1);
}

TEST_F(CudaGemmTuning, ZeroGivesAndTakesChoicesToo) {
  const GemmCase c{.m = 64, .n = 64, .k = 320};
  GemmProduct first(c, DType::kF32);
  setenv("VENTRIS_TUNE_GEMM", "0", 1);
  Context chooses({.device = Device::kCuda, .scratch_bytes = 1 << 16});
  first.on_device(chooses);
  const std::string choices = gemm_choices(chooses);
  EXPECT_NE(choices.find("k 320"), std::string::npos) << choices;
  Context takes({.device = Device::kCuda, .scratch_bytes = 1 << 16});
  EXPECT_TRUE(prefer_gemm_choices(takes, choices));
  EXPECT_FALSE(prefer_gemm_choices(takes, "of another device\n" + choices));
}

TEST_F(CudaGemmTuning, ChoicesGoToOtherContextsAsText) {
  const GemmCase c{.m = 64, .n = 64, .k = 320};
  GemmProduct first(c, DType::kF32);
  GemmProduct second(c, DType::kF32);
  GemmProduct other(kTuned, DType::kF32);
  Context chooses({.device = Device::kCuda, .scratch_bytes = 1 << 16});
  EXPECT_EQ(gemm_choices(chooses).find("k 320"), std::string::npos);
  first.on_device(chooses);
  const std::string choices = gemm_choices(chooses);
  EXPECT_NE(choices.find("k 320"), std::string::npos) << choices;

  Context takes({.device = Device::kCuda, .scratch_bytes = 1 << 16});
  EXPECT_FALSE(prefer_gemm_choices(takes, "of another device\n" + choices));
  EXPECT_TRUE(prefer_gemm_choices(takes, choices));
  end_gemm_tuning(takes);
  const int64_t before = emulation::launches()["product"];
  second.on_device(takes);
  other.on_device(takes);
  EXPECT_EQ(emulation::launches()["product"] - before, 2) << "nothing is timed";
  for (Context* context : {&chooses, &takes})
    EXPECT_EQ(cudaStreamSynchronize(cuda::stream_of(*context)), cudaSuccess);
  expect_same_bits("c", first.device_result, second.device_result);
  EXPECT_NE(gemm_choices(takes).find(choices.substr(choices.find("k 320"))), std::string::npos);
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
