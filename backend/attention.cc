#include "backend/attention.h"

#include "backend/attention_cpu.h"

namespace ventris {
namespace {

void check_shape(const char* name, const ConstTensor& tensor, int64_t rows, int64_t cols, DType dtype) {
  VENTRIS_CHECK(tensor && tensor.rows == rows && tensor.cols == cols && tensor.dtype == dtype,
                "attention: {} is [{}, {}] of {}, expected [{}, {}] of {}", name, tensor.rows, tensor.cols,
                name_of(tensor.dtype), rows, cols, name_of(dtype));
}

void check_offsets(const char* name, const int32_t* offsets, int sentences, int64_t rows) {
  VENTRIS_CHECK(offsets != nullptr, "attention: {} offsets are missing", name);
  VENTRIS_CHECK(offsets[0] == 0 && offsets[sentences] <= rows,
                "attention: {} offsets go from {} to {}, {} rows", name, offsets[0], offsets[sentences],
                rows);
  for (int s = 0; s < sentences; ++s) {
    VENTRIS_CHECK(offsets[s] <= offsets[s + 1], "attention: {} offsets fall from {} to {} at sentence {}",
                  name, offsets[s], offsets[s + 1], s);
  }
}

/// What forward and backward have in common.
template <typename Args>
void check_inputs(const Args& args) {
  const DType dtype = args.query.dtype;
  VENTRIS_CHECK(
      args.sentences >= 0 && args.heads > 0 && args.heads <= 256 && args.query.cols % args.heads == 0,
      "attention: {} sentences, {} heads over {} columns", args.sentences, args.heads, args.query.cols);
  check_shape("query", args.query, args.query.rows, args.query.cols, dtype);
  check_shape("key", args.key, args.key.rows, args.query.cols, dtype);
  check_shape("value", args.value, args.key.rows, args.query.cols, dtype);
  check_offsets("query", args.query_offsets, args.sentences, args.query.rows);
  check_offsets("key", args.key_offsets, args.sentences, args.key.rows);
  VENTRIS_CHECK(!args.dropout.active() || (args.dropout.place & 0xFFU) == 0,
                "attention: dropout place {:#x} does not leave its low 8 bits to the head",
                args.dropout.place);
  if (args.causal) {
    for (int s = 0; s <= args.sentences; ++s) {
      VENTRIS_CHECK(args.query_offsets[s] == args.key_offsets[s],
                    "attention: causal, but sentence {} begins at query {} and key {}", s,
                    args.query_offsets[s], args.key_offsets[s]);
    }
  }
}

}  // namespace

void attention_forward(Context& context, const AttentionForwardArgs& args) {
  check_inputs(args);
  const DType dtype = args.query.dtype;
  const DType master = master_dtype(dtype);
  check_shape("out", args.out, args.query.rows, args.query.cols, dtype);
  if (args.log_sum_exp) check_shape("log_sum_exp", args.log_sum_exp, args.heads, args.query.rows, master);
  if (args.probabilities) {
    check_shape("probabilities", args.probabilities, args.query.rows, args.probabilities.cols, master);
    VENTRIS_CHECK(args.probabilities.cols % args.heads == 0 &&
                      args.probabilities.cols / args.heads >= longest(args.key_offsets, args.sentences),
                  "attention: probabilities have {} columns for {} heads and sentences of up to {} keys",
                  args.probabilities.cols, args.heads, longest(args.key_offsets, args.sentences));
  }
  switch (dtype) {
    case DType::kF32:
      return attention_forward_cpu<float>(context, args);
    case DType::kBF16:
      return attention_forward_cpu<BF16>(context, args);
    case DType::kF64:
      return attention_forward_cpu<double>(context, args);
  }
}

void attention_backward(Context& context, const AttentionBackwardArgs& args) {
  check_inputs(args);
  const DType dtype = args.query.dtype;
  const int64_t cols = args.query.cols;
  check_shape("out", args.out, args.query.rows, cols, dtype);
  check_shape("log_sum_exp", args.log_sum_exp, args.heads, args.query.rows, master_dtype(dtype));
  check_shape("d_out", args.d_out, args.query.rows, cols, dtype);
  check_shape("d_query", args.d_query, args.query.rows, cols, dtype);
  check_shape("d_key", args.d_key, args.key.rows, cols, dtype);
  check_shape("d_value", args.d_value, args.key.rows, cols, dtype);
  switch (dtype) {
    case DType::kF32:
      return attention_backward_cpu<float>(context, args);
    case DType::kBF16:
      return attention_backward_cpu<BF16>(context, args);
    case DType::kF64:
      return attention_backward_cpu<double>(context, args);
  }
}

void attention_decode(Context& context, const AttentionDecodeArgs& args) {
  const DType dtype = args.query.dtype;
  VENTRIS_CHECK(args.heads > 0 && args.query.cols % args.heads == 0, "attention: {} heads over {} columns",
                args.heads, args.query.cols);
  VENTRIS_CHECK(args.key_begin != nullptr, "attention: key_begin is missing");
  check_shape("key", args.key, args.key.rows, args.query.cols, dtype);
  check_shape("value", args.value, args.key.rows, args.query.cols, dtype);
  check_shape("out", args.out, args.query.rows, args.query.cols, dtype);
  if (args.probabilities) {
    check_shape("probabilities", args.probabilities, args.query.rows, args.probabilities.cols,
                master_dtype(dtype));
  }
  for (int64_t r = 0; r < args.query.rows; ++r) {
    const int64_t keys = args.key_begin[r + 1] - args.key_begin[r];
    VENTRIS_CHECK(keys >= 0 && (!args.probabilities || keys <= args.probabilities.cols),
                  "attention: hypothesis {} has {} keys", r, keys);
  }
  switch (dtype) {
    case DType::kF32:
      return attention_decode_cpu<float>(context, args);
    case DType::kBF16:
      return attention_decode_cpu<BF16>(context, args);
    case DType::kF64:
      return attention_decode_cpu<double>(context, args);
  }
}

}  // namespace ventris
