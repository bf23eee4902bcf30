// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <map>
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
  void SetUp() override {
    VENTRIS_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    VENTRIS_CUDA_CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  }
  void TearDown() override {
    emulation::clear_fault();
    static_cast<void>(cudaStreamDestroy(stream));
    static_cast<void>(cudaStreamDestroy(other));
  }
  cudaStream_t stream = nullptr;
  cudaStream_t other = nullptr;
};

__global__ void reverse_values(int* values) {
  int* shared = dynamic_shared<int>();
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  shared[threadIdx.x] = values[i];
  sync_threads();
  values[i] = shared[blockDim.x - 1 - threadIdx.x];
}

TEST_F(EmulatedRuntime, ThreadsOfABlockMeetAtBarriers) {
  std::vector<int> values(300);
  for (int i = 0; i < 300; ++i) values[static_cast<size_t>(i)] = i;
  const DeviceArray<int> device(values);
  launch({.name = "reverse_block", .grid = 3, .block = 100, .shared_bytes = 400}, stream, reverse_values,
         device.data());
  const std::vector<int> got = device.get(stream);
  for (int i = 0; i < 300; ++i) EXPECT_EQ(got[static_cast<size_t>(i)], i / 100 * 100 + 99 - i % 100);
}

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
__global__ void twice(int* value) {
  *value *= 2;
}

TEST_F(EmulatedRuntime, StreamsAreOrderedByEventsAlone) {
  const DeviceArray<int> value({0});
  cudaEvent_t event = nullptr;
  VENTRIS_CUDA_CHECK(cudaEventCreate(&event));
  launch({.name = "add_one", .grid = 1, .block = 1}, stream, add_one, value.data());
  launch({.name = "twice", .grid = 1, .block = 1}, other, twice, value.data());
  EXPECT_EQ(value.get(other)[0], 0) << "no event: the other stream waits for nothing";
  VENTRIS_CUDA_CHECK(cudaEventRecord(event, stream));
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  VENTRIS_CUDA_CHECK(cudaStreamWaitEvent(other, event));
  launch({.name = "twice", .grid = 1, .block = 1}, other, twice, value.data());
  EXPECT_EQ(value.get(other)[0], 2);
  VENTRIS_CUDA_CHECK(cudaEventDestroy(event));
}

TEST_F(EmulatedRuntime, GraphsRepeatWhatTheyCaptured) {
  const DeviceArray<int> value({1});
  cudaEvent_t event = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  VENTRIS_CUDA_CHECK(cudaEventCreate(&event));
  VENTRIS_CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  launch({.name = "add_one", .grid = 1, .block = 1}, stream, add_one, value.data());
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 4), cudaErrorStreamCaptureUnsupported);
  VENTRIS_CUDA_CHECK(cudaEventRecord(event, stream));
  VENTRIS_CUDA_CHECK(cudaStreamWaitEvent(other, event));
  launch({.name = "twice", .grid = 1, .block = 1}, other, twice, value.data());
  VENTRIS_CUDA_CHECK(cudaEventRecord(event, other));
  VENTRIS_CUDA_CHECK(cudaStreamWaitEvent(stream, event));
  VENTRIS_CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
  EXPECT_EQ(value.get(stream)[0], 1) << "capture runs nothing";
  VENTRIS_CUDA_CHECK(cudaGraphInstantiate(&exec, graph));
  VENTRIS_CUDA_CHECK(cudaGraphLaunch(exec, stream));
  VENTRIS_CUDA_CHECK(cudaGraphLaunch(exec, stream));
  EXPECT_EQ(value.get(stream)[0], 10);
  VENTRIS_CUDA_CHECK(cudaGraphExecDestroy(exec));
  VENTRIS_CUDA_CHECK(cudaGraphDestroy(graph));
  VENTRIS_CUDA_CHECK(cudaEventDestroy(event));
}

TEST_F(EmulatedRuntime, AGraphHasThePrioritiesOfItsStreamsOnlyWhereAskedFor) {
  int least = 0;
  int greatest = 0;
  VENTRIS_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaStream_t first = nullptr;
  VENTRIS_CUDA_CHECK(cudaStreamCreateWithPriority(&first, cudaStreamNonBlocking, greatest - 7));
  const auto priority_of = [](cudaStream_t of) {
    int priority = 1;
    EXPECT_EQ(cudaStreamGetPriority(of, &priority), cudaSuccess);
    return priority;
  };
  EXPECT_EQ(priority_of(first), greatest) << "the nearest of the range";
  EXPECT_EQ(priority_of(stream), least);
  int ran = 1;
  const auto work = [&ran] { ran = emulation::running_priority(); };
  VENTRIS_CUDA_CHECK(emulation::enqueue(first, "work", work));
  VENTRIS_CUDA_CHECK(cudaStreamSynchronize(first));
  EXPECT_EQ(ran, greatest);

  cudaGraph_t graph = nullptr;
  VENTRIS_CUDA_CHECK(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
  VENTRIS_CUDA_CHECK(emulation::enqueue(first, "work", work));
  VENTRIS_CUDA_CHECK(cudaStreamEndCapture(first, &graph));
  for (const unsigned long long flags : {0ULL, cudaGraphInstantiateFlagUseNodePriority}) {
    cudaGraphExec_t exec = nullptr;
    VENTRIS_CUDA_CHECK(cudaGraphInstantiate(&exec, graph, flags));
    VENTRIS_CUDA_CHECK(cudaGraphLaunch(exec, stream));
    VENTRIS_CUDA_CHECK(cudaStreamSynchronize(stream));
    EXPECT_EQ(ran, flags == 0 ? least : greatest);
    VENTRIS_CUDA_CHECK(cudaGraphExecDestroy(exec));
  }
  VENTRIS_CUDA_CHECK(cudaGraphDestroy(graph));
  VENTRIS_CUDA_CHECK(cudaStreamDestroy(first));
}

TEST_F(EmulatedRuntime, AStreamThatIsNotJoinedSpoilsTheCapture) {
  const DeviceArray<int> value({1});
  cudaEvent_t event = nullptr;
  cudaGraph_t graph = nullptr;
  VENTRIS_CUDA_CHECK(cudaEventCreate(&event));
  VENTRIS_CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  VENTRIS_CUDA_CHECK(cudaEventRecord(event, stream));
  VENTRIS_CUDA_CHECK(cudaStreamWaitEvent(other, event));
  launch({.name = "twice", .grid = 1, .block = 1}, other, twice, value.data());
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureUnjoined);
  VENTRIS_CUDA_CHECK(cudaEventDestroy(event));
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

TEST_F(EmulatedRuntime, WritesPastSharedMemoryAreFound) {
  launch({.name = "write_shared", .grid = 1, .block = 1, .shared_bytes = 16}, stream, write_shared, 4);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorLaunchFailure);
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
  const testing::DeviceMatrix fresh(1, 3, DType::kF32);
  EXPECT_TRUE(std::isnan(fresh.get(stream).get(0)));
  constexpr int64_t kMany = int64_t{3} << 20;  // 12 MiB
  const testing::DeviceMatrix large(1, kMany, DType::kF32);
  const auto values = large.get(stream);
  for (const int64_t at : {int64_t{0}, kMany / 3 - 1, 2 * kMany / 3, kMany - 1})
    EXPECT_TRUE(std::isnan(values.get(at))) << at;
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

TEST_F(EmulatedRuntime, WaitsThatLeaveTheDeviceIdleAreCounted) {
  void* memory = nullptr;
  VENTRIS_CUDA_CHECK(cudaMalloc(&memory, 64));
  cudaEvent_t event = nullptr;
  VENTRIS_CUDA_CHECK(cudaEventCreate(&event));
  const uint64_t before = emulation::idle_waits();
  VENTRIS_CUDA_CHECK(cudaMemsetAsync(memory, 0, 64, stream));
  VENTRIS_CUDA_CHECK(cudaEventRecord(event, stream));
  VENTRIS_CUDA_CHECK(cudaMemsetAsync(memory, 1, 64, stream));
  VENTRIS_CUDA_CHECK(cudaEventSynchronize(event));
  EXPECT_EQ(emulation::idle_waits(), before);
  VENTRIS_CUDA_CHECK(cudaStreamSynchronize(stream));
  EXPECT_EQ(emulation::idle_waits(), before + 1);
  VENTRIS_CUDA_CHECK(cudaStreamSynchronize(stream));  // nothing to wait for
  EXPECT_EQ(emulation::idle_waits(), before + 1);
  VENTRIS_CUDA_CHECK(cudaEventDestroy(event));
  VENTRIS_CUDA_CHECK(cudaFree(memory));
}

template <typename T, bool kNegative>
__global__ void set_one(T* to) {
  *to = T{kNegative ? -1 : 1};
}

TEST_F(EmulatedRuntime, LaunchesAreCountedByNameAndOnceACapture) {
  const DeviceArray<int> values({1, 2, 3, 4});
  std::vector<int> host(4);
  std::map<std::string, int64_t> before = emulation::launches();
  const auto expect_more = [&](const std::string& name, int64_t more) {
    EXPECT_EQ(emulation::launches()[name] - before[name], more) << name;
  };
  const Shape shape = {.name = "", .grid = 1, .block = 1};
  launch(shape, stream, set_one<int, true>, values.data());
  launch(shape, other, set_one<int, false>, values.data());
  VENTRIS_CUDA_CHECK(cudaMemcpyAsync(host.data(), values.data(), 16, cudaMemcpyDeviceToHost, stream));
  VENTRIS_CUDA_CHECK(cudaMemcpyAsync(values.data(), host.data(), 8, cudaMemcpyHostToDevice, stream));
  VENTRIS_CUDA_CHECK(cudaMemcpyAsync(values.data(), values.data() + 2, 8, cudaMemcpyDeviceToDevice, stream));
  VENTRIS_CUDA_CHECK(cudaStreamSynchronize(stream));
  expect_more("set_one", 2);
  expect_more("copy to host", 1);
  expect_more("copy to device", 1);
  expect_more("copy on device", 1);

  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  VENTRIS_CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  VENTRIS_CUDA_CHECK(cudaMemsetAsync(values.data(), 0, 16, stream));
  VENTRIS_CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
  VENTRIS_CUDA_CHECK(cudaGraphInstantiate(&executable, graph));
  for (int i = 0; i < 3; ++i) VENTRIS_CUDA_CHECK(cudaGraphLaunch(executable, stream));
  VENTRIS_CUDA_CHECK(cudaStreamSynchronize(stream));
  expect_more("memset", 1);
  expect_more("graph", 3);
  VENTRIS_CUDA_CHECK(cudaGraphExecDestroy(executable));
  VENTRIS_CUDA_CHECK(cudaGraphDestroy(graph));

  before = emulation::launches();
  EXPECT_THROW(launch({.name = "", .grid = 1, .block = 2000}, stream, add_one, nullptr), Error);
  EXPECT_EQ(emulation::launches(), before);  // a launch that fails is none
}

TEST_F(EmulatedRuntime, AFaultIsSaidWithTheNameOfItsKernel) {
  launch({.name = "", .grid = 1, .block = 1, .shared_bytes = 16}, stream, write_shared, 4);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorLaunchFailure);
  EXPECT_NE(std::string(cudaGetErrorString(cudaErrorLaunchFailure)).find("kernel write_shared of 1 x"),
            std::string::npos);
}

}  // namespace
}  // namespace ventris::cuda
