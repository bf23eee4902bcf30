#pragma once

#include "backend/step_graph.h"

namespace ventris {

/// Captures what `enqueue` gives the context's stream, which does not run yet.
CudaGraphPtr capture_cuda(Context& context, const std::function<void()>& enqueue);
void launch_cuda(Context& context, CudaGraph& graph);

}  // namespace ventris
