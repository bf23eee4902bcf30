// SPDX-License-Identifier: Apache-2.0
// NCCL launches a while after the call: who does not wait for that loses the sum from a graph.
#include <gtest/gtest.h>
#include <nccl.h>

#include <thread>
#include <vector>

#include "tests/emulation/controls.h"
#include "tests/emulation/device_buffer.h"

namespace ventris {
namespace {

/// A communicator of one rank and a graph with its sum.
class NcclLaunch : public ::testing::Test {
 protected:
  void SetUp() override {
    ncclUniqueId id;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    EXPECT_EQ(ncclCommInitRankConfig(&comm_, 1, id, 0, &config), ncclInProgress);
    wait();
    for (cudaStream_t* stream : {&stream_, &of_sums_})
      VENTRIS_CUDA_CHECK(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
    VENTRIS_CUDA_CHECK(cudaEventCreate(&event_));
  }
  void TearDown() override {
    static_cast<void>(ncclCommDestroy(comm_));
    static_cast<void>(cudaEventDestroy(event_));
    for (cudaStream_t stream : {stream_, of_sums_}) static_cast<void>(cudaStreamDestroy(stream));
  }
  void wait() {
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) {
      std::this_thread::yield();
      ASSERT_EQ(ncclCommGetAsyncError(comm_, &state), ncclSuccess);
    }
    EXPECT_EQ(state, ncclSuccess);
  }
  void order(cudaStream_t earlier, cudaStream_t later) {
    VENTRIS_CUDA_CHECK(cudaEventRecord(event_, earlier));
    VENTRIS_CUDA_CHECK(cudaStreamWaitEvent(later, event_));
  }
  /// What NCCL enqueued during the capture of a sum.
  int64_t captured_sums(bool wait_for_launch) {
    const testing::DeviceArray<float> numbers(std::vector<float>(4));
    const int64_t before = emulation::launches()["NCCL"];
    cudaGraph_t graph = nullptr;
    VENTRIS_CUDA_CHECK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    order(stream_, of_sums_);
    EXPECT_EQ(ncclAllReduce(numbers.data(), numbers.data(), 4, ncclFloat32, ncclSum, comm_, of_sums_),
              ncclInProgress);
    if (wait_for_launch) wait();
    order(of_sums_, stream_);
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
    const int64_t during = emulation::launches()["NCCL"] - before;
    wait();
    VENTRIS_CUDA_CHECK(cudaDeviceSynchronize());
    VENTRIS_CUDA_CHECK(cudaGraphDestroy(graph));
    return during;
  }

  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaStream_t of_sums_ = nullptr;
  cudaEvent_t event_ = nullptr;
};

TEST_F(NcclLaunch, IsWaitedForBeforeTheStreamIsJoined) {
  EXPECT_EQ(captured_sums(true), 1);
}
TEST_F(NcclLaunch, ThatIsNotWaitedForIsMissing) {
  EXPECT_EQ(captured_sums(false), 0);
}

}  // namespace
}  // namespace ventris
