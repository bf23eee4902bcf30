// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "backend/ops/add.h"

namespace ventris::cuda {

/// add() as work of any stream of the current device.
void add_in_stream(cudaStream_t stream, const AddArgs& args);

}  // namespace ventris::cuda
