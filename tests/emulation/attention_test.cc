// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/emulation/device_buffer.h"
#include "tests/support/attention_operands.h"

namespace ventris::testing {
namespace {

/// A captured step serves batches with other lengths, as long as rows and sentences are as many.
TEST(CudaAttentionOnTensorCores, ACapturedStepServesOtherLengths) {
  AttentionOperands operands({{100, 20, 0, 0, 0}, {}, 2, 32, true}, DType::kBF16, 0.3F);
  operands.run();  // scratch memory grows
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  VENTRIS_CUDA_CHECK(cudaStreamBeginCapture(cuda_stream(), cudaStreamCaptureModeGlobal));
  operands.run();
  VENTRIS_CUDA_CHECK(cudaStreamEndCapture(cuda_stream(), &graph));
  VENTRIS_CUDA_CHECK(cudaGraphInstantiate(&exec, graph));
  operands.set_lengths({10, 33, 20, 16, 30});  // fewer tokens: more rows to be cleared
  operands.forget_results();
  VENTRIS_CUDA_CHECK(cudaGraphLaunch(exec, cuda_stream()));
  operands.expect_matches(operands.reference());
  VENTRIS_CUDA_CHECK(cudaGraphExecDestroy(exec));
  VENTRIS_CUDA_CHECK(cudaGraphDestroy(graph));
}

}  // namespace
}  // namespace ventris::testing
