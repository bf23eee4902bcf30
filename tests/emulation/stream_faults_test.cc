// SPDX-License-Identifier: Apache-2.0
// Streams and graphs with a missing edge: the emulated device shows it. With the edge nothing shows.
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "backend/cuda/intrinsics.cuh"
#include "tests/emulation/controls.h"
#include "tests/emulation/device_buffer.h"
#include "tests/emulation/random.h"

namespace ventris::cuda {
namespace {

using emulation::StreamOrder;
using testing::DeviceArray;

__global__ void set_to(int* to, int value) {
  *to = value;
}
__global__ void add_to(int* to, const int* from) {
  *to += *from;
}

class StreamFaults : public ::testing::Test {
 protected:
  void SetUp() override {
    for (cudaStream_t* stream : {&first_, &second_})
      VENTRIS_CUDA_CHECK(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
    VENTRIS_CUDA_CHECK(cudaEventCreate(&event_));
  }
  void TearDown() override {
    static_cast<void>(cudaEventDestroy(event_));
    for (cudaStream_t stream : {first_, second_}) static_cast<void>(cudaStreamDestroy(stream));
    emulation::stream_order() = order_;
    emulation::set_seed(seed_);
  }
  void set(cudaStream_t stream, int value) {
    launch({.name = "", .grid = 1, .block = 1}, stream, set_to, a_.data(), value);
  }
  void add(cudaStream_t stream) {
    launch({.name = "", .grid = 1, .block = 1}, stream, add_to, sum_.data(), a_.data());
  }
  /// `later` waits for what `earlier` has been given.
  void order(cudaStream_t earlier, cudaStream_t later) {
    VENTRIS_CUDA_CHECK(cudaEventRecord(event_, earlier));
    VENTRIS_CUDA_CHECK(cudaStreamWaitEvent(later, event_));
  }
  int take_sum() {
    VENTRIS_CUDA_CHECK(cudaDeviceSynchronize());
    const int sum = sum_.get(first_)[0];
    VENTRIS_CUDA_CHECK(cudaMemset(sum_.data(), 0, sizeof(int)));
    VENTRIS_CUDA_CHECK(cudaMemset(a_.data(), 0, sizeof(int)));
    return sum;
  }
  /// The sums that `work` leaves with 20 seeds.
  template <typename Work>
  std::set<int> sums(StreamOrder order, const Work& work) {
    emulation::stream_order() = order;
    std::set<int> found;
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      emulation::set_seed(seed);
      work();
      found.insert(take_sum());
    }
    return found;
  }
  /// The sums that 20 launches of a captured graph leave.
  template <typename Work>
  std::set<int> sums_of_graph(const Work& work) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    VENTRIS_CUDA_CHECK(cudaStreamBeginCapture(first_, cudaStreamCaptureModeThreadLocal));
    work();
    VENTRIS_CUDA_CHECK(cudaStreamEndCapture(first_, &graph));
    VENTRIS_CUDA_CHECK(cudaGraphInstantiate(&executable, graph));
    const std::set<int> found =
        sums(StreamOrder::kLate, [&] { VENTRIS_CUDA_CHECK(cudaGraphLaunch(executable, first_)); });
    VENTRIS_CUDA_CHECK(cudaGraphExecDestroy(executable));
    VENTRIS_CUDA_CHECK(cudaGraphDestroy(graph));
    return found;
  }

  cudaStream_t first_ = nullptr;
  cudaStream_t second_ = nullptr;
  cudaEvent_t event_ = nullptr;
  const DeviceArray<int> a_{std::vector<int>{0}};
  const DeviceArray<int> sum_{std::vector<int>{0}};

 private:
  const StreamOrder order_ = emulation::stream_order();
  const uint64_t seed_ = emulation::seed();
};

TEST_F(StreamFaults, AMissingForkShows) {
  for (const bool edge : {true, false}) {
    const auto work = [&] {
      set(first_, 5);
      if (edge) order(first_, second_);
      add(second_);
      order(second_, first_);
    };
    EXPECT_EQ(sums(StreamOrder::kEager, work), std::set<int>({5}));
    const std::set<int> found = sums(StreamOrder::kRandom, work);
    EXPECT_EQ(found, edge ? std::set<int>({5}) : std::set<int>({0, 5}));
  }
}

TEST_F(StreamFaults, AMissingEdgeOfAGraphShows) {
  for (const bool edge : {true, false}) {
    const std::set<int> found = sums_of_graph([&] {
      set(first_, 5);
      order(first_, second_);
      set(first_, 7);
      if (edge) order(first_, second_);
      add(second_);
      order(second_, first_);
    });
    EXPECT_EQ(found, edge ? std::set<int>({7}) : std::set<int>({5, 7}));
  }
}

/// The event was recorded before the last work of the second stream.
TEST_F(StreamFaults, AJoinThatComesTooEarlySpoilsTheCapture) {
  cudaGraph_t graph = nullptr;
  VENTRIS_CUDA_CHECK(cudaStreamBeginCapture(first_, cudaStreamCaptureModeThreadLocal));
  order(first_, second_);
  add(second_);
  VENTRIS_CUDA_CHECK(cudaEventRecord(event_, second_));
  add(second_);
  VENTRIS_CUDA_CHECK(cudaStreamWaitEvent(first_, event_));
  EXPECT_EQ(cudaStreamEndCapture(first_, &graph), cudaErrorStreamCaptureUnjoined);
}

}  // namespace
}  // namespace ventris::cuda
