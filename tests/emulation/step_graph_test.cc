// SPDX-License-Identifier: Apache-2.0
#include "backend/device/step_graph.h"

#include <gtest/gtest.h>

#include "backend/device/error.h"
#include "backend/device/stopwatch.h"
#include "backend/device/transfer.h"
#include "backend/ops/cast.h"
#include "tests/emulation/device_buffer.h"

namespace ventris {
namespace {

using testing::cuda_context;

/// Copies `from`, four numbers, over `to`.
class CudaStepGraph : public ::testing::Test {
 protected:
  void enqueue() {
    ++calls_;
    cast(cuda_context(), {.source = from_, .destination = to_});
  }
  /// What a run makes of `value`.
  float run(StepGraph& graph, float value) {
    const float numbers[4] = {value, value, value, value};
    copy_to_device(cuda_context(), from_.data, numbers, sizeof(numbers));
    graph.run([this] { enqueue(); });
    float read[4] = {};
    copy_to_host(cuda_context(), read, to_.data, sizeof(read));
    return read[3];
  }

  Arena memory_{Device::kCuda, 4096};
  Tensor from_ = memory_.allocate(1, 4, DType::kF32);
  Tensor to_ = memory_.allocate(1, 4, DType::kF32);
  int calls_ = 0;
};

TEST_F(CudaStepGraph, TheThirdRunReplaysWithNewNumbers) {
  StepGraph graph(cuda_context(), /*capture=*/true);
  for (const float value : {1.0F, 2.0F, 3.0F, 4.0F}) EXPECT_EQ(run(graph, value), value);
  EXPECT_EQ(calls_, 2);
}

TEST_F(CudaStepGraph, WithoutCaptureEveryRunEnqueues) {
  StepGraph graph(cuda_context(), /*capture=*/false);
  for (const float value : {1.0F, 2.0F, 3.0F, 4.0F}) EXPECT_EQ(run(graph, value), value);
  EXPECT_EQ(calls_, 4);
}

TEST_F(CudaStepGraph, AStopwatchMeasuresEveryReplay) {
  for (const bool capture : {false, true}) {
    Stopwatch stopwatch(cuda_context());
    EXPECT_EQ(stopwatch.seconds(), 0.0);
    StepGraph graph(cuda_context(), capture);
    for (int i = 0; i < 4; ++i) {
      stopwatch.start();
      graph.run([&] {
        enqueue();
        stopwatch.stop();
      });
      EXPECT_GT(stopwatch.seconds(), 0.0);  // negative if only the point of an earlier run was recorded
    }
  }
}

TEST_F(CudaStepGraph, AFailureDuringCaptureLeavesAStreamThatWorks) {
  StepGraph graph(cuda_context(), /*capture=*/true);
  EXPECT_EQ(run(graph, 1.0F), 1.0F);
  EXPECT_THROW(graph.run([&] {
    enqueue();
    fail(ExitCode::kInternal, "a failure");
  }),
               Error);
  EXPECT_EQ(run(graph, 2.0F), 2.0F);
  EXPECT_EQ(run(graph, 3.0F), 3.0F);
}

}  // namespace
}  // namespace ventris
