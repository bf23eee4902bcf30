// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "backend/device/context.h"

namespace ventris {

struct CudaGraph;  // backend/device/step_graph_cuda.cu
using CudaGraphPtr = std::unique_ptr<CudaGraph, void (*)(CudaGraph*)>;

/// Repeated work of a device with the same shapes and addresses: on CUDA it is captured once as a graph and
/// replayed, at almost no cost for the host. Other devices execute it directly each time.
class StepGraph {
 public:
  /// The context must outlive the object. Without `capture` CUDA also executes the work directly.
  StepGraph(Context& context, bool capture);

  /// Executes the work that `enqueue` enqueues in the context's stream and in streams that are ordered after
  /// it and before its end. The first call runs `enqueue`: memory grows and algorithms are chosen. The second
  /// captures it, and later ones replay the graph without calling it: its host code runs twice in total.
  /// `enqueue` must neither read from the device nor wait for it, and must not allocate the second time.
  void run(const std::function<void()>& enqueue);

 private:
  Context& context_;
  const bool capture_;
  bool has_run_ = false;
  CudaGraphPtr graph_;
};

}  // namespace ventris
