// SPDX-License-Identifier: Apache-2.0
#include <cublasLt.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "backend/gemm_choices.h"
#include "tests/emulation/controls.h"
#include "tests/emulation/gemm_product.h"
#include "tests/emulation/tuning_folder.h"

namespace ventris::testing {
namespace {

constexpr GemmCase kTuned = {.m = 64, .n = 128, .k = 64};

/// Tuning, with a folder of its own for the file of algorithms.
class CudaGemmTuning : public ::testing::Test {
 protected:
  /// A new context computes the product; the number of products that took.
  int64_t run(GemmProduct& p) const {
    Context context({.device = Device::kCuda, .scratch_bytes = 1 << 16});
    const int64_t before = emulation::launches()["product"];
    p.on_device(context);
    const int64_t enqueued = emulation::launches()["product"] - before;
    EXPECT_EQ(cudaStreamSynchronize(cuda::stream_of(context)), cudaSuccess);
    return enqueued;
  }
  std::filesystem::path file() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      if (entry.path().extension() == ".txt") return entry.path();
    }
    return {};
  }
  const TuningFolder folder_;
};

TEST_F(CudaGemmTuning, TheChoiceOfOneRunIsThatOfTheNext) {
  for (const bool accumulate : {false, true}) {
    const GemmCase c{.m = 64, .n = 64, .k = accumulate ? 320 : 384, .accumulate = accumulate};
    GemmProduct first(c, DType::kF32);
    GemmProduct second(c, DType::kF32);
    EXPECT_GT(run(first), 3) << "the candidates are timed";
    EXPECT_EQ(run(second), 1) << "nothing is timed again";
    expect_same("c", first.device_result, second.device_result);
    first.on_cpu();
    expect_matches("c", first.device_result, first.result, DType::kF32);
  }
}

TEST_F(CudaGemmTuning, ADamagedFileIsIgnored) {
  GemmProduct p(kTuned, DType::kF32);
  run(p);
  std::string text;
  {
    std::ifstream in(file());
    text.assign(std::istreambuf_iterator<char>(in), {});
  }
  const size_t line = text.rfind('\t', text.size() - 20);  // before the algorithm of the last line
  std::string damaged = text;
  damaged[line + 5] ^= 1;
  for (const std::string& content :
       {damaged, std::string("\0\1nonsense", 10), std::string(), text.substr(0, 40)}) {
    std::ofstream(file(), std::ios::trunc) << content;
    EXPECT_GT(run(p), 3);
    EXPECT_EQ(run(p), 1) << "it is written anew";
  }
}

TEST_F(CudaGemmTuning, ShapesOfDecodingAreNotTimed) {
  GemmProduct p({.m = 63, .n = 64, .k = 64}, DType::kF32);
  EXPECT_EQ(run(p), 1);
  EXPECT_FALSE(std::filesystem::exists(folder_.path()));
}

TEST_F(CudaGemmTuning, ZeroTakesTheFirstAlgorithmAndKeepsNothing) {
  setenv("VENTRIS_TUNE_GEMM", "0", 1);
  GemmProduct p(kTuned, DType::kF32);
  EXPECT_EQ(run(p), 1);
  EXPECT_FALSE(std::filesystem::exists(folder_.path()));
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
  std::filesystem::remove_all(folder_.path());

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
  EXPECT_FALSE(std::filesystem::exists(folder_.path())) << "and nothing is kept";
  expect_same("c", first.device_result, second.device_result);
  EXPECT_NE(gemm_choices(takes).find(choices.substr(choices.find("k 320"))), std::string::npos);
}

TEST_F(CudaGemmTuning, AFolderThatCannotBeWrittenIsNoError) {
  std::filesystem::create_directories(folder_.path());
  setenv("VENTRIS_CACHE_DIR", (folder_.path() + "/file/below").c_str(), 1);
  std::ofstream(folder_.path() + "/file") << "no folder";
  GemmProduct p(kTuned, DType::kF32);
  ::testing::internal::CaptureStderr();
  EXPECT_GT(run(p), 3);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("cannot be saved"), std::string::npos);
}

}  // namespace
}  // namespace ventris::testing
