// SPDX-License-Identifier: Apache-2.0
// Kernels whose threads race, which ThreadSanitizer finds whatever the order of the threads is, and some
// whose do not. And the list of the kernels that it has to watch.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "backend/cuda/intrinsics.cuh"
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
__global__ void race_in_block(int* numbers) {
  __shared__ int values[128];
  int* shared = kStatic ? values : dynamic_shared<int>();
  shared[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (kFault == kNone) sync_threads();
  numbers[blockIdx.x * 128 + threadIdx.x] = shared[127 - threadIdx.x];
}

TEST_F(Races, OnSharedMemoryAreFound) {
  EXPECT_FALSE((races(race_in_block<kNone, false>, 4, 128)));
  EXPECT_TRUE((races(race_in_block<kMissing, false>, 4, 128)));
  EXPECT_FALSE((races(race_in_block<kNone, true>, 4, 128)));
  EXPECT_TRUE((races(race_in_block<kMissing, true>, 4, 128)));
}

template <Fault kFault>
__global__ void race_in_warp(int* numbers) {
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
  EXPECT_FALSE(races(race_in_warp<kNone>, 1, 32));
  EXPECT_TRUE(races(race_in_warp<kMissing>, 1, 32));
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

// Every kernel of the program, with what a launch of it has at least: races between blocks need several, and
// those between turns of a loop several turns. Fewer blocks stand where the kernel is launched with one; of
// the meetings it is two fifths or more of what the tests reach. tests/cli/sources_test.py compares the names
// with the sources.
struct Watched {
  const char* kernel;
  uint64_t blocks;
  uint64_t meetings;  // of the threads of a block (block.h)
};
// clang-format off
constexpr Watched kWatched[] = {
    {"activation",                 2,    0},
    {"adam_step",                  2,    0},
    {"add_columns",                2,    1},
    {"add_row",                    2,   14},
    {"add_terms",                  2,    0},
    {"attend",                     2, 1000},
    {"attend_on_tensor_cores",     2,  800},
    {"average_values",             2,    0},
    {"cast_packs",                 2,    0},
    {"chunk_squares",              2,    7},
    {"clear_rows",                 2,    0},
    {"cross_entropy_row",          2,   28},
    {"decay_values",               2,    0},
    {"decode",                     2,   16},
    {"decode_probabilities",       2,    0},
    {"digest_words",               2,   14},
    {"drop_elements",              2,    0},
    {"embed",                      2,    0},
    {"empty_product",              1,    0},
    {"exchange_values",            2,    0},
    {"gradients_in_less_memory",   2, 2000},
    {"gradients_on_tensor_cores",  2, 2000},
    {"join_runs",                  2,    0},
    {"key_gradient",               2,  200},
    {"list_work",                  1,    8},
    {"log_probability_row",        2,   14},
    {"norm_backward",              2,   80},
    {"norm_forward",               2,   14},
    {"penalize_row",               2,    0},
    {"plan",                       1,    0},
    {"probe",                      0,    0},  // is never launched: the driver is asked for its code
    {"query_gradient",             2,  300},
    {"search",                     2,    0},
    {"sum_columns",                2,    1},
    {"sum_losses",                 1,   14},
    {"sum_partials",               1,    7},
    {"sum_runs",                   2,    0},
    {"top_k_row",                  2,   60},
    {"write_probabilities",        2,    0},
};
// clang-format on

/// After all tests, if $VENTRIS_EMULATED_ALL_KERNELS is set.
class AllKernels : public ::testing::Environment {
  void TearDown() override {
    if (std::getenv("VENTRIS_EMULATED_ALL_KERNELS") == nullptr) return;
    std::map<std::string, emulation::KernelRun> runs = emulation::kernel_runs();
    std::printf("%-28s %14s %14s\n", "watched by ThreadSanitizer", "blocks", "meetings");
    for (const Watched& watched : kWatched) {
      const emulation::KernelRun& run = runs[watched.kernel];
      std::printf("%-28s %14llu %14llu\n", watched.kernel, static_cast<unsigned long long>(run.blocks),
                  static_cast<unsigned long long>(run.meetings));
      EXPECT_GE(run.blocks, watched.blocks) << watched.kernel;
      EXPECT_GE(run.meetings, watched.meetings) << watched.kernel;
    }
  }
};
const auto* const kAllKernels = ::testing::AddGlobalTestEnvironment(new AllKernels);

}  // namespace
}  // namespace ventris::cuda
