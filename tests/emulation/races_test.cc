// Kernels whose threads race, which ThreadSanitizer finds whatever the order of the threads is, and some
// whose do not.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backend/cuda/intrinsics.cuh"
#include "backend/cuda/mma.cuh"
#include "tests/emulation/controls.h"
#include "tests/emulation/device_buffer.h"
#include "tests/emulation/race_detector.h"

namespace ventris::cuda {
namespace {

using testing::DeviceArray;

class Races : public ::testing::Test {
 protected:
  Races() { VENTRIS_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~Races() override {
    emulation::clear_fault();
    static_cast<void>(cudaStreamDestroy(stream_));
  }
  template <typename Kernel>
  bool races(Kernel kernel, unsigned blocks, unsigned threads) {
    const DeviceArray<int> numbers(std::vector<int>(1024));
    launch({.name = "", .grid = blocks, .block = threads, .shared_bytes = 4096}, stream_, kernel,
           numbers.data());
    const uint64_t before = emulation::races_found();
    const cudaError_t status = cudaStreamSynchronize(stream_);
    const bool found = emulation::races_found() != before;
    EXPECT_EQ(status, found ? cudaErrorLaunchFailure : cudaSuccess);
    if (found) {
      EXPECT_NE(std::string(cudaGetErrorString(status)).find("threads race"), std::string::npos);
    }
    emulation::clear_fault();
    emulation::forget_races();
    return found;
  }

  cudaStream_t stream_ = nullptr;
};

enum Fault { kNone, kMissing };

/// In dynamic and in static shared memory.
template <Fault kFault, bool kStatic>
__global__ void reverse_block(int* numbers) {
  __shared__ int values[128];
  int* shared = kStatic ? values : dynamic_shared<int>();
  shared[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (kFault == kNone) sync_threads();
  numbers[blockIdx.x * 128 + threadIdx.x] = shared[127 - threadIdx.x];
}

TEST_F(Races, OnSharedMemoryAreFound) {
  EXPECT_FALSE((races(reverse_block<kNone, false>, 4, 128)));
  EXPECT_TRUE((races(reverse_block<kMissing, false>, 4, 128)));
  EXPECT_FALSE((races(reverse_block<kNone, true>, 4, 128)));
  EXPECT_TRUE((races(reverse_block<kMissing, true>, 4, 128)));
}

/// The next turn overwrites what others may still read.
template <Fault kFault>
__global__ void add_in_turns(int* numbers) {
  int* shared = dynamic_shared<int>();
  int sum = 0;
  for (int turn = 0; turn < 3; ++turn) {
    shared[threadIdx.x] = turn;
    sync_threads();
    sum += shared[(threadIdx.x + 40) % 128];
    if (kFault == kNone) sync_threads();
  }
  numbers[blockIdx.x * 128 + threadIdx.x] = sum;
}

TEST_F(Races, OfTheNextTurnAreFound) {
  EXPECT_FALSE(races(add_in_turns<kNone>, 2, 128));
  EXPECT_TRUE(races(add_in_turns<kMissing>, 2, 128));
}

template <Fault kFault>
__global__ void reverse_warp(int* numbers) {
  int* shared = dynamic_shared<int>();
  shared[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (kFault == kNone) {
    sync_warp();
  } else {
    static_cast<void>(any_lane(true));  // says nothing of memory
  }
  numbers[threadIdx.x] = shared[31 - threadIdx.x];
}

TEST_F(Races, OfAMissingSyncWarpAreFound) {
  EXPECT_FALSE(races(reverse_warp<kNone>, 1, 32));
  EXPECT_TRUE(races(reverse_warp<kMissing>, 1, 32));
}

/// All blocks the same element, or each its own.
template <Fault kFault>
__global__ void write_of_blocks(int* numbers) {
  if (threadIdx.x == 0) numbers[kFault == kNone ? blockIdx.x : 0] = 1;
}
__global__ void count_atomically(int* numbers) {
  atomic_add(numbers, 1);
}

TEST_F(Races, BetweenBlocksAreFound) {
  EXPECT_FALSE(races(write_of_blocks<kNone>, 3, 32));
  EXPECT_TRUE(races(write_of_blocks<kMissing>, 3, 32));
  EXPECT_FALSE(races(count_atomically, 3, 64));
}

/// A result handed to another block needs more than an atomic count.
__global__ void last_block_reads(int* numbers) {
  if (threadIdx.x != 0) return;
  numbers[1 + blockIdx.x] = 1;
  if (atomic_add(numbers, 1) == 2) numbers[10] = numbers[1] + numbers[2] + numbers[3];
}

TEST_F(Races, OfResultsHandedToAnotherBlockWithoutAFenceAreFound) {
  EXPECT_TRUE(races(last_block_reads, 3, 32));
}

/// Every thread waits for its own copies; those of others are there after a barrier.
template <Fault kFault>
__global__ void copy_asynchronously(int* numbers) {
  int* shared = dynamic_shared<int>();
  async_copy_16(shared + 4 * threadIdx.x, numbers + 4 * threadIdx.x);
  async_commit();
  async_wait<0>();
  if (kFault == kNone) sync_threads();
  numbers[512 + threadIdx.x] = shared[4 * ((threadIdx.x + 32) % 64)];
}

TEST_F(Races, OfAsynchronousCopiesAreFound) {
  EXPECT_FALSE(races(copy_asynchronously<kNone>, 1, 64));
  EXPECT_TRUE(races(copy_asynchronously<kMissing>, 1, 64));
}

}  // namespace
}  // namespace ventris::cuda
