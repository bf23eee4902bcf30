// SPDX-License-Identifier: Apache-2.0
// The kernels of one instruction set: this file and all that it uses are compiled once for each set
// (cmake/instruction_sets.cmake), and no other symbol of these objects is visible.
#include "backend/cpu/kernel_table.h"
#include "backend/cpu/attention.h"
#include "backend/cpu/attention_backward.h"
#include "backend/cpu/attention_decode.h"
#include "backend/cpu/gemm_int8.h"
#include "backend/cpu/gemm_int8_pack.h"
#include "backend/cpu/gemm_kernel.h"
#include "backend/cpu/gemm_pack.h"
#include "backend/cpu/kernels.h"

#ifndef VENTRIS_KERNEL_TABLE
#define VENTRIS_KERNEL_TABLE ventris_kernels
#endif

namespace ventris {
namespace {

void attention_forward_any(Context& context, const AttentionForwardArgs& args) {
  dispatch_dtype(args.query.dtype, [&](auto tag) { attention_forward_cpu<decltype(tag)>(context, args); });
}
void attention_backward_any(Context& context, const AttentionBackwardArgs& args) {
  dispatch_dtype(args.query.dtype, [&](auto tag) { attention_backward_cpu<decltype(tag)>(context, args); });
}
void attention_decode_any(Context& context, const AttentionDecodeArgs& args) {
  dispatch_dtype(args.query.dtype, [&](auto tag) { attention_decode_cpu<decltype(tag)>(context, args); });
}

}  // namespace

extern "C" {
extern const CpuKernels VENTRIS_KERNEL_TABLE;
constinit const CpuKernels VENTRIS_KERNEL_TABLE = {
    .adam = adam_cpu,
    .add = add_cpu,
    .apply_dropout = apply_dropout_cpu,
    .attention_forward = attention_forward_any,
    .attention_backward = attention_backward_any,
    .attention_decode = attention_decode_any,
    .bias_relu_backward = bias_relu_backward_cpu,
    .bias_backward = bias_backward_cpu,
    .bit_digest = bit_digest_cpu,
    .cast = cast_cpu,
    .fill_zero = fill_zero_cpu,
    .chained_gemm = chained_gemm_cpu,
    .cross_entropy = cross_entropy_cpu,
    .loss_sum = loss_sum_cpu,
    .embedding_forward = embedding_forward_cpu,
    .embedding_backward = embedding_backward_cpu,
    .squares_of_chunks = squares_of_chunks_cpu,
    .layer_norm_forward = layer_norm_forward_cpu,
    .layer_norm_backward = layer_norm_backward_cpu,
    .log_probability_sum = log_probability_sum_cpu,
    .moving_average = moving_average_cpu,
    .exchange = exchange_cpu,
    .find_not_finite = find_not_finite_cpu,
    .int8_packed_bytes = int8_packed_bytes_cpu,
    .int8_pack = int8_pack_cpu,
    .int8_gemm = int8_gemm_cpu,
    .packed_bytes = packed_bytes_cpu,
    .pack = pack_cpu,
    .packed_gemm = packed_gemm_cpu,
    .repetition_penalty = repetition_penalty_cpu,
    .swish_forward = swish_forward_cpu,
    .swish_backward = swish_backward_cpu,
    .log_softmax_top_k = log_softmax_top_k_cpu,
    .log_probability = log_probability_cpu,
    .plan_update = plan_update_cpu,
    .weight_decay = weight_decay_cpu,
};
}

}  // namespace ventris
