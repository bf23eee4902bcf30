// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "backend/cuda/intrinsics.cuh"
#include "tests/emulation/controls.h"
#include "tests/emulation/device_buffer.h"

namespace ventris::cuda {
namespace {

using testing::DeviceArray;

class EmulatedRuntime : public ::testing::Test {
 protected:
  void SetUp() override { VENTRIS_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)); }
  void TearDown() override {
    emulation::clear_fault();
    static_cast<void>(cudaStreamDestroy(stream));
  }
  cudaStream_t stream = nullptr;
};

__global__ void warp_operations(int* out) {
  const int i = static_cast<int>(threadIdx.x);
  const int l = i % kWarp;
  int sum = i;
  for (int mask = 16; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
  out[4 * i] = sum;
  out[4 * i + 1] = shuffle(i, 5);
  out[4 * i + 2] = shuffle_down(i, 3);
  out[4 * i + 3] =
      static_cast<int>(ballot(l % 3 == 0)) ^ (any_lane(l == 7) ? 1 : 0) ^ (all_lanes(l < 31) ? 2 : 0);
}

TEST_F(EmulatedRuntime, LanesOfAWarpExchangeValues) {
  const DeviceArray<int> device(std::vector<int>(4 * 96));
  launch({.name = "warp_operations", .grid = 1, .block = 96}, stream, warp_operations, device.data());
  const std::vector<int> got = device.get(stream);
  for (int i = 0; i < 96; ++i) {
    const int first = i / 32 * 32;
    const auto at = [&](int k) { return got[static_cast<size_t>(4 * i + k)]; };
    EXPECT_EQ(at(0), 32 * first + 31 * 16);
    EXPECT_EQ(at(1), first + 5);
    EXPECT_EQ(at(2), i % 32 + 3 < 32 ? i + 3 : i);
    EXPECT_EQ(static_cast<unsigned>(at(3)), 0x49249249U ^ 1U);
  }
}

__global__ void add_one(int* value) {
  *value += 1;
}

TEST_F(EmulatedRuntime, ACaptureRunsNothingAndForbidsAllocationAndWaits) {
  const DeviceArray<int> value({1});
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  VENTRIS_CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  launch({.name = "add_one", .grid = 1, .block = 1}, stream, add_one, value.data());
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 4), cudaErrorStreamCaptureUnsupported);
  VENTRIS_CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
  EXPECT_EQ(value.get(stream)[0], 1);
  VENTRIS_CUDA_CHECK(cudaGraphInstantiate(&exec, graph));
  for (int i = 0; i < 2; ++i) VENTRIS_CUDA_CHECK(cudaGraphLaunch(exec, stream));
  EXPECT_EQ(value.get(stream)[0], 3);
  VENTRIS_CUDA_CHECK(cudaGraphExecDestroy(exec));
  VENTRIS_CUDA_CHECK(cudaGraphDestroy(graph));
}

__global__ void write_at(int* to, int index) {
  to[index] = 1;
}

TEST_F(EmulatedRuntime, WritesOutsideAnAllocationAreFound) {
  for (const int index : {-1, 3}) {
    const DeviceArray<int> value({0, 0, 0});
    launch({.name = "write_at", .grid = 1, .block = 1}, stream, write_at, value.data(), index);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
    EXPECT_THROW(VENTRIS_CUDA_CHECK(cudaGetLastError()), Error);
    emulation::clear_fault();
  }
}

__global__ void write_shared(int index) {
  dynamic_shared<int>()[index] = 1;
}

__global__ void half_waits() {
  if (threadIdx.x < 32) {
    sync_threads();
  } else {
    sync_warp();
    while (threadIdx.x == 40) sync_threads();
    static_cast<void>(ballot(true));
  }
}

TEST_F(EmulatedRuntime, ThreadsThatWaitForEverAreFound) {
  launch({.name = "half_waits", .grid = 1, .block = 64}, stream, half_waits);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorLaunchFailure);
  EXPECT_NE(std::string(cudaGetErrorString(cudaErrorLaunchFailure)).find("wait for ever"), std::string::npos);
}

TEST_F(EmulatedRuntime, FreshMemoryIsNaN) {
  for (const size_t count : {size_t{3}, size_t{3} << 20}) {  // the second: 12 MiB
    float* fresh = nullptr;
    std::vector<float> values(count);
    VENTRIS_CUDA_CHECK(cudaMalloc(&fresh, count * sizeof(float)));
    VENTRIS_CUDA_CHECK(cudaMemcpy(values.data(), fresh, count * sizeof(float), cudaMemcpyDeviceToHost));
    VENTRIS_CUDA_CHECK(cudaFree(fresh));
    for (const size_t at : {size_t{0}, count / 3 - 1, 2 * count / 3, count - 1})
      EXPECT_TRUE(std::isnan(values[at])) << at;
  }
}

TEST_F(EmulatedRuntime, LaunchesThatNoDeviceTakesThrow) {
  EXPECT_THROW(launch({.name = "add_one", .grid = 1, .block = 2000}, stream, add_one, nullptr), Error);
  EXPECT_THROW(
      launch({.name = "add_one", .grid = 1, .block = 1, .shared_bytes = 300000}, stream, add_one, nullptr),
      Error);
}

TEST(EmulatedRuntimeDeathTest, HostCodeCannotTouchDeviceMemory) {
  const DeviceArray<int> value({0});
  EXPECT_DEATH(static_cast<void>(*static_cast<volatile int*>(value.data())),
               "host code touches device memory");
}

TEST_F(EmulatedRuntime, AFaultIsSaidWithTheNameOfItsKernel) {
  launch({.name = "", .grid = 1, .block = 1, .shared_bytes = 16}, stream, write_shared, 4);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorLaunchFailure);
  EXPECT_NE(std::string(cudaGetErrorString(cudaErrorLaunchFailure)).find("kernel write_shared of 1 x"),
            std::string::npos);
}

}  // namespace
}  // namespace ventris::cuda
