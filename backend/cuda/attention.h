// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/ops/attention.h"

namespace ventris {

size_t attention_work_bytes_cuda(int sentences, int64_t query_rows, int64_t key_rows);
void list_attention_work_cuda(Context& context, const AttentionWorkArgs& args);
void attention_forward_cuda(Context& context, const AttentionForwardArgs& args);
void attention_backward_cuda(Context& context, const AttentionBackwardArgs& args);
void attention_decode_cuda(Context& context, const AttentionDecodeArgs& args);

/// bf16 on tensor cores, without probabilities; called by the two above if cuda::tensor_cores_take
/// (backend/cuda/attention_mma.cuh) is true.
void attention_forward_tensor_cuda(Context& context, const AttentionForwardArgs& args);
void attention_backward_tensor_cuda(Context& context, const AttentionBackwardArgs& args);

}  // namespace ventris
