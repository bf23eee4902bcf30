// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/device/step_graph.h"

namespace ventris {

/// Captures the work that `enqueue` enqueues in the context's stream, without running it.
CudaGraphPtr capture_cuda(Context& context, const std::function<void()>& enqueue);
void launch_cuda(Context& context, CudaGraph& graph);

}  // namespace ventris
