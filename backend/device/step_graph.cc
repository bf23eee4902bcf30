// SPDX-License-Identifier: Apache-2.0
#include "backend/device/step_graph.h"

#include "backend/device/has_cuda.h"
#include "backend/device/step_graph_cuda.h"

namespace ventris {

StepGraph::StepGraph(Context& context, bool capture)
    : context_(context),
      capture_(capture && context.device() == Device::kCuda),
      graph_(nullptr, [](CudaGraph*) {}) {}

void StepGraph::run(const std::function<void()>& enqueue) {
  if constexpr (kHasCuda) {
    if (capture_ && has_run_) {
      if (!graph_) graph_ = capture_cuda(context_, enqueue);
      launch_cuda(context_, *graph_);
      return;
    }
  }
  enqueue();
  has_run_ = true;
}

}  // namespace ventris
