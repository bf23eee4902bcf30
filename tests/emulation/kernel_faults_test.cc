// SPDX-License-Identifier: Apache-2.0
// Kernels with faults that a GPU shows now and then, or on another GPU: the emulated device shows them with
// every seed.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "backend/cuda/intrinsics.cuh"
#include "tests/emulation/controls.h"
#include "tests/emulation/device_buffer.h"
#include "tests/emulation/random.h"

namespace ventris::cuda {
namespace {

using testing::DeviceArray;

/// With each of some seeds.
class KernelFaults : public ::testing::TestWithParam<uint64_t> {
 protected:
  void SetUp() override {
    emulation::set_seed(GetParam());
    VENTRIS_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  void TearDown() override {
    emulation::clear_fault();
    static_cast<void>(cudaStreamDestroy(stream_));
    emulation::set_seed(before_);
  }
  /// What a kernel leaves in `count` numbers that are 0 before.
  template <typename Kernel>
  std::vector<int> run(Kernel kernel, unsigned blocks, unsigned threads, size_t count,
                       size_t shared_bytes = 0) {
    const DeviceArray<int> numbers((std::vector<int>(count)));
    launch({.name = "", .grid = blocks, .block = threads, .shared_bytes = shared_bytes}, stream_, kernel,
           numbers.data());
    return numbers.get(stream_);
  }
  template <typename Kernel, typename... Arguments>
  void expect_unaligned(Kernel kernel, const Arguments&... arguments) {
#ifdef __SANITIZE_ADDRESS__
    GTEST_SKIP() << "UndefinedBehaviorSanitizer ends the program";
#endif
    launch({.name = "", .grid = 2, .block = 64}, stream_, kernel, arguments...);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorLaunchFailure);
    const std::string text = cudaGetErrorString(cudaErrorLaunchFailure);
    EXPECT_NE(text.find("kernel_faults_test.cc:"), std::string::npos) << text;
    EXPECT_NE(text.find("more than a multiple of"), std::string::npos) << text;
    EXPECT_NE(text.find(emulation::seed_text()), std::string::npos) << text;
  }

  cudaStream_t stream_ = nullptr;

 private:
  const uint64_t before_ = emulation::seed();
};

INSTANTIATE_TEST_SUITE_P(Seeds, KernelFaults, ::testing::Range<uint64_t>(1, 9));

__global__ void note_order(int* order) {
  if (threadIdx.x == 0) order[1 + atomic_add(order, 1)] = static_cast<int>(blockIdx.x);
}

TEST_P(KernelFaults, TheOrderOfBlocksFollowsFromTheSeedAlone) {
  const auto order = [&](uint64_t seed) {
    emulation::set_seed(seed);
    return run(note_order, 50, 32, 51);
  };
  const std::vector<int> mine = order(GetParam());
  EXPECT_EQ(std::set<int>(mine.begin() + 1, mine.end()).size(), 50U);
  EXPECT_EQ(order(GetParam()), mine);
  EXPECT_NE(order(GetParam() + 1), mine);
}

/// Right if blocks run one after the other in order.
__global__ void count_on(int* numbers) {
  if (threadIdx.x == 0) numbers[blockIdx.x + 1] = numbers[blockIdx.x] + 1;
}

TEST_P(KernelFaults, RelianceOnTheOrderOfBlocksShows) {
  std::vector<int> ordered(51);
  for (int i = 0; i < 51; ++i) ordered[static_cast<size_t>(i)] = i;
  EXPECT_NE(run(count_on, 50, 32, 51), ordered);
}

/// Right if blocks run one at a time.
__global__ void count_blocks(int* count) {
  const int before = *count;
  sync_threads();
  if (threadIdx.x == 0) *count = before + 1;
}

TEST_P(KernelFaults, RelianceOnBlocksThatRunAloneShows) {
  EXPECT_LT(run(count_blocks, 200, 32, 1)[0], 200);
}

/// Right if shared memory is zero at the beginning.
__global__ void count_threads(int* counts) {
  __shared__ int count;
  atomic_add(&count, 1);
  atomic_add(dynamic_shared<int>(), 1);
  sync_threads();
  counts[2 * blockIdx.x] = count;
  counts[2 * blockIdx.x + 1] = dynamic_shared<int>()[0];
}

TEST_P(KernelFaults, RelianceOnWhatSharedMemoryHoldsAtTheBeginningShows) {
  for (const int count : run(count_threads, 20, 64, 40, 4)) EXPECT_EQ(count, 63) << "not -1 at the beginning";
}

template <bool kSync>
__global__ void reverse_block(int* numbers) {
  __shared__ int values[256];
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (kSync) sync_threads();
  numbers[threadIdx.x] = values[255 - threadIdx.x];
}
template <bool kSync>
__global__ void reverse_warp(int* numbers) {
  __shared__ int values[32];
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (kSync) sync_warp();
  numbers[threadIdx.x] = values[31 - threadIdx.x];
}

TEST_P(KernelFaults, AMissingBarrierShows) {
  const auto reversed = [](int count) {
    std::vector<int> numbers;
    for (int i = count - 1; i >= 0; --i) numbers.push_back(i);
    return numbers;
  };
  EXPECT_EQ(run(reverse_block<true>, 1, 256, 256), reversed(256));
  EXPECT_NE(run(reverse_block<false>, 1, 256, 256), reversed(256));
  EXPECT_EQ(run(reverse_warp<true>, 1, 32, 32), reversed(32));
  EXPECT_NE(run(reverse_warp<false>, 1, 32, 32), reversed(32));
}

__global__ void store_vector(float* to) {
  *reinterpret_cast<uint4*>(to) = {1, 2, 3, 4};
}
__global__ void store_pair(uint16_t* to) {
  *reinterpret_cast<uint32_t*>(to) = 1;
}

#ifdef __clang__
constexpr bool kChecksStructs = false;
#else
constexpr bool kChecksStructs = true;
#endif
TEST_P(KernelFaults, AnUnalignedVectorStoreIsFound) {
  if (!kChecksStructs) GTEST_SKIP() << "clang does not check accesses to whole structs";
  const DeviceArray<float> numbers(std::vector<float>(8));
  expect_unaligned(store_vector, numbers.data() + 2);
}
TEST_P(KernelFaults, AnUnalignedStoreOfAPairIsFound) {
  const DeviceArray<uint16_t> numbers(std::vector<uint16_t>(8));
  expect_unaligned(store_pair, numbers.data() + 1);
}

}  // namespace
}  // namespace ventris::cuda
