// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/attention.h"

#include "backend/cpu/attention.h"
#include "backend/cuda/attention.h"
#include "backend/ops/kernels.h"
#include "backend/ops/op_checks.h"

namespace ventris {
namespace {

void check_offsets(const char* name, const int32_t* offsets, int sentences, int64_t rows) {
  VENTRIS_CHECK(offsets[0] == 0 && offsets[sentences] <= rows,
                "attention: {} offsets go from {} to {}, {} rows", name, offsets[0], offsets[sentences],
                rows);
  for (int s = 0; s < sentences; ++s) {
    VENTRIS_CHECK(offsets[s] <= offsets[s + 1], "attention: {} offsets fall from {} to {} at sentence {}",
                  name, offsets[s], offsets[s + 1], s);
  }
}

/// Checks shared by forward and backward. Offsets are read only on the CPU.
template <typename Args>
void check_inputs(const Context& context, const Args& args) {
  const DType dtype = args.query.dtype;
  VENTRIS_CHECK(
      args.sentences >= 0 && args.heads > 0 && args.heads <= 256 && args.query.cols % args.heads == 0,
      "attention: {} sentences, {} heads over {} columns", args.sentences, args.heads, args.query.cols);
  check_tensor(args.query, args.query.rows, args.query.cols, dtype, "query");
  check_tensor(args.key, args.key.rows, args.query.cols, dtype, "key");
  check_tensor(args.value, args.key.rows, args.query.cols, dtype, "value");
  check_dropout(args.dropout);
  VENTRIS_CHECK(
      !args.work || (args.sentences <= args.work.sentences && args.query.rows <= args.work.query_rows &&
                     args.key.rows <= args.work.key_rows),
      "attention: {} sentences, {} query rows and {} key rows; the lists of work have room for {}, {} and {}",
      args.sentences, args.query.rows, args.key.rows, args.work.sentences, args.work.query_rows,
      args.work.key_rows);
  VENTRIS_CHECK(!args.dropout.active() || (args.dropout.place & 0xFFU) == 0,
                "attention: dropout place {:#x} does not leave its low 8 bits to the head",
                args.dropout.place);
  VENTRIS_CHECK(args.query_offsets != nullptr && args.key_offsets != nullptr,
                "attention: query or key offsets are missing");
  if (context.device() != Device::kCpu) return;
  check_offsets("query", args.query_offsets, args.sentences, args.query.rows);
  check_offsets("key", args.key_offsets, args.sentences, args.key.rows);
  if (args.causal) {
    for (int s = 0; s <= args.sentences; ++s) {
      VENTRIS_CHECK(args.query_offsets[s] == args.key_offsets[s],
                    "attention: causal, but sentence {} begins at query {} and key {}", s,
                    args.query_offsets[s], args.key_offsets[s]);
    }
  }
}

/// Reads the lists of keys, which only the CPU can.
void check_key_rows(const AttentionDecodeArgs& args) {
  VENTRIS_CHECK(args.key_begin[0] >= 0, "attention: key_begin is negative");
  VENTRIS_CHECK(args.key_rows != nullptr || args.key_begin[args.query.rows] == 0,
                "attention: key_rows is missing");
  for (int64_t r = 0; r < args.query.rows; ++r) {
    const int64_t keys = args.key_begin[r + 1] - args.key_begin[r];
    VENTRIS_CHECK(keys >= 0 && (!args.probabilities || keys <= args.probabilities.cols),
                  "attention: hypothesis {} has {} keys", r, keys);
  }
  for (int32_t i = args.key_begin[0]; i < args.key_begin[args.query.rows]; ++i) {
    VENTRIS_CHECK(args.key_rows[i] >= 0 && args.key_rows[i] < args.key.rows,
                  "attention: key_rows[{}] is {}, the cache has {} rows", i, args.key_rows[i], args.key.rows);
  }
}

}  // namespace

AttentionWork plan_attention_work(Arena& arena, Device device, DType dtype, int sentences, int64_t query_rows,
                                  int64_t key_rows) {
  if constexpr (kHasCuda) {
    if (device == Device::kCuda && dtype == DType::kBF16) {
      return {.memory = arena.allocate(attention_work_bytes_cuda(sentences, query_rows, key_rows)),
              .sentences = sentences,
              .query_rows = query_rows,
              .key_rows = key_rows};
    }
  }
  return {};
}

void list_attention_work(Context& context, const AttentionWorkArgs& args) {
  if (!args.work) return;
  VENTRIS_CHECK(args.query_offsets != nullptr && args.key_offsets != nullptr && args.sentences >= 0 &&
                    args.sentences <= args.work.sentences,
                "work of attention: {} sentences, room for {}; offsets are {}", args.sentences,
                args.work.sentences,
                args.query_offsets == nullptr || args.key_offsets == nullptr ? "missing" : "there");
  if constexpr (kHasCuda) {
    if (context.device() == Device::kCuda) list_attention_work_cuda(context, args);
  }
}

void attention_forward(Context& context, const AttentionForwardArgs& args) {
  check_inputs(context, args);
  const DType dtype = args.query.dtype;
  const DType master = master_dtype(dtype);
  check_tensor(args.out, args.query.rows, args.query.cols, dtype, "out");
  check_optional(args.log_sum_exp, args.heads, args.query.rows, master, "log_sum_exp");
  if (args.probabilities) {
    check_tensor(args.probabilities, args.query.rows, args.probabilities.cols, master, "probabilities");
    const int64_t keys =
        context.device() == Device::kCpu ? longest(args.key_offsets, args.sentences) : int64_t{0};
    VENTRIS_CHECK(args.probabilities.cols % args.heads == 0 && args.probabilities.cols / args.heads >= keys,
                  "attention: probabilities have {} columns for {} heads and sentences of up to {} keys",
                  args.probabilities.cols, args.heads, keys);
  }
  kernels::attention_forward(context, args);
}

void attention_backward(Context& context, const AttentionBackwardArgs& args) {
  check_inputs(context, args);
  const DType dtype = args.query.dtype;
  const int64_t cols = args.query.cols;
  check_tensor(args.out, args.query.rows, cols, dtype, "out");
  check_tensor(args.log_sum_exp, args.heads, args.query.rows, master_dtype(dtype), "log_sum_exp");
  check_tensor(args.d_out, args.query.rows, cols, dtype, "d_out");
  check_tensor(args.d_query, args.query.rows, cols, dtype, "d_query");
  check_tensor(args.d_key, args.key.rows, cols, dtype, "d_key");
  check_tensor(args.d_value, args.key.rows, cols, dtype, "d_value");
  kernels::attention_backward(context, args);
}

void attention_decode(Context& context, const AttentionDecodeArgs& args) {
  const DType dtype = args.query.dtype;
  VENTRIS_CHECK(args.heads > 0 && args.query.cols % args.heads == 0, "attention: {} heads over {} columns",
                args.heads, args.query.cols);
  VENTRIS_CHECK(args.key_begin != nullptr, "attention: key_begin is missing");
  check_tensor(args.key, args.key.rows, args.query.cols, dtype, "key");
  check_tensor(args.value, args.key.rows, args.query.cols, dtype, "value");
  check_tensor(args.out, args.query.rows, args.query.cols, dtype, "out");
  check_optional(args.probabilities, args.query.rows, args.probabilities.cols, master_dtype(dtype),
                 "probabilities");
  if (context.device() == Device::kCpu) check_key_rows(args);
  kernels::attention_decode(context, args);
}

}  // namespace ventris
