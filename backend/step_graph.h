#pragma once

#include <functional>
#include <memory>

#include "backend/context.h"

namespace ventris {

struct CudaGraph;  // backend/step_graph_cuda.cu
using CudaGraphPtr = std::unique_ptr<CudaGraph, void (*)(CudaGraph*)>;

/// Work that the device is given again and again, with the same shapes at the same addresses: on CUDA it is
/// captured once as a graph and replayed, so that the host spends next to nothing on it. Other devices are
/// given the work anew each time.
class StepGraph {
 public:
  /// The context outlives the object. Without `capture` CUDA is given the work anew, too.
  StepGraph(Context& context, bool capture);

  /// Gives the device the work that `enqueue` enqueues in the context's stream and in streams that are
  /// ordered after it and before its end. The first call runs `enqueue`: memory grows and algorithms are
  /// chosen. The second captures it, and those after it replay what was captured without calling it: what it
  /// does on the host is done twice in all. `enqueue` neither reads from the device nor waits for it, and
  /// allocates nothing the second time.
  void run(const std::function<void()>& enqueue);

 private:
  Context& context_;
  const bool capture_;
  bool has_run_ = false;
  CudaGraphPtr graph_;
};

}  // namespace ventris
