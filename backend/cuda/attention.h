// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/ops/attention.h"

namespace ventris {

size_t attention_work_bytes_cuda(int sentences, int64_t query_rows, int64_t key_rows);
void list_attention_work_cuda(Context& context, const AttentionWorkArgs& args);

/// bf16 on tensor cores, without probabilities; the kernels of attention call these if
/// cuda::tensor_cores_take (backend/cuda/attention_mma.cuh) is true.
void attention_forward_tensor_cuda(Context& context, const AttentionForwardArgs& args);
void attention_backward_tensor_cuda(Context& context, const AttentionBackwardArgs& args);

}  // namespace ventris
