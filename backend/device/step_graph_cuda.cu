// SPDX-License-Identifier: Apache-2.0
#include "backend/device/step_graph_cuda.h"

#include "backend/cuda/launch.cuh"

namespace ventris {

using cuda::stream_of;

/// A graph that can be launched.
struct CudaGraph {
  CudaGraph() = default;
  ~CudaGraph() {
    if (executable != nullptr) static_cast<void>(cudaGraphExecDestroy(executable));
  }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  cudaGraphExec_t executable = nullptr;
};

namespace {

/// Always ends the capture of a stream; the graph of a failed capture is discarded.
class Capture {
 public:
  explicit Capture(cudaStream_t stream) : stream_(stream) {
    // Threads that prepare batches do not use the device, but another context may.
    VENTRIS_CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  }
  ~Capture() {
    if (!ended_) {
      static_cast<void>(cudaStreamEndCapture(stream_, &graph_));
      static_cast<void>(cudaGetLastError());
    }
    if (graph_ != nullptr) static_cast<void>(cudaGraphDestroy(graph_));
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  cudaGraph_t end() {
    ended_ = true;
    VENTRIS_CUDA_CHECK(cudaStreamEndCapture(stream_, &graph_));
    return graph_;
  }

 private:
  cudaStream_t stream_;
  cudaGraph_t graph_ = nullptr;
  bool ended_ = false;
};

}  // namespace

CudaGraphPtr capture_cuda(Context& context, const std::function<void()>& enqueue) {
  CudaGraphPtr made(new CudaGraph, [](CudaGraph* graph) { delete graph; });
  Capture capture(stream_of(context));
  enqueue();
  // Otherwise all nodes have the priority of the stream that the graph is launched in.
  VENTRIS_CUDA_CHECK(
      cudaGraphInstantiate(&made->executable, capture.end(), cudaGraphInstantiateFlagUseNodePriority));
  return made;
}

void launch_cuda(Context& context, CudaGraph& graph) {
  VENTRIS_CUDA_CHECK(cudaGraphLaunch(graph.executable, stream_of(context)));
}

}  // namespace ventris
