// SPDX-License-Identifier: Apache-2.0
// Ranges that begin more than 2^32 elements into a buffer, which costs no memory but what is touched.
#include <gtest/gtest.h>

#include <vector>

#include "backend/weight_decay.h"
#include "tests/emulation/controls.h"
#include "tests/emulation/device_buffer.h"

namespace ventris::testing {
namespace {

class CudaFarRanges : public ::testing::Test {
 protected:
  static constexpr int64_t kCount = 64;
  static constexpr int64_t kFar = int64_t{1} << 32;
  static constexpr FlatRange kRange = {.begin = kFar, .count = kCount};

  void SetUp() override {
    emulation::machine().memory_bytes = size_t{1} << 40;
    VENTRIS_CUDA_CHECK(cudaMalloc(&values_, (kFar + kCount) * sizeof(float)));
    const std::vector<float> ones(kCount, 1.0F);
    for (const int64_t begin : {int64_t{0}, kFar})
      VENTRIS_CUDA_CHECK(
          cudaMemcpy(values_ + begin, ones.data(), kCount * sizeof(float), cudaMemcpyHostToDevice));
    finish_copies();
  }
  void TearDown() override {
    VENTRIS_CUDA_CHECK(cudaFree(values_));
    emulation::machine() = before_;
  }
  Tensor view() const { return {values_, 1, kFar + kCount, kFar + kCount, DType::kF32}; }
  /// The ones at the beginning stay, those of the range become `value`.
  void expect(float value) const {
    VENTRIS_CUDA_CHECK(cudaStreamSynchronize(cuda_stream()));
    std::vector<float> got(kCount);
    for (const int64_t begin : {int64_t{0}, kFar}) {
      VENTRIS_CUDA_CHECK(
          cudaMemcpy(got.data(), values_ + begin, kCount * sizeof(float), cudaMemcpyDeviceToHost));
      EXPECT_EQ(got, std::vector<float>(kCount, begin == 0 ? 1.0F : value)) << "from element " << begin;
    }
  }

  const emulation::Machine before_ = emulation::machine();
  float* values_ = nullptr;
};

TEST_F(CudaFarRanges, Decay) {
  const DeviceArray<AdamScalars> scalars(
      {{.learning_rate = 0.5F, .gradient_scale = 1.0F, .bias_correction1 = 1.0F, .bias_correction2 = 1.0F}});
  const std::vector<FlatRange> ranges = {kRange};
  weight_decay(cuda_context(), {.values = view(), .ranges = ranges, .decay = 0.5, .scalars = scalars.data()});
  expect(0.75F);
}

}  // namespace
}  // namespace ventris::testing
