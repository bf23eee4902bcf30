// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "backend/cuda/best_tokens.cuh"
#include "backend/cuda/elements.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/softmax_row.cuh"
#include "backend/ops/top_k.h"

namespace ventris {
namespace {

using namespace cuda;

/// The tokens that rows must not have.
struct Banned {
  const int32_t* everywhere;  // ended by -1, or null
  const int32_t* of_rows;     // or null
  const int32_t* begin;       // [rows + 1]

  __device__ __forceinline__ bool has(int64_t row, int32_t token) const {
    for (const int32_t* b = everywhere; b != nullptr && *b >= 0; ++b) {
      if (*b == token) return true;
    }
    if (of_rows == nullptr) return false;
    for (int32_t i = begin[row]; i < begin[row + 1]; ++i) {
      if (of_rows[i] == token) return true;
    }
    return false;
  }
};

/// One block: one row; thread 0 writes its k values and indices. NaN comes last. Grid: rows; block:
/// kRowThreads.
template <typename T, bool kVectors>
__global__ void __launch_bounds__(kRowThreads)
    top_k_row(Rows<const T> logits, int64_t vocab, int k, Banned banned, float* values, int32_t* indices) {
  __shared__ double room[kRowThreads / kWarp];
  __shared__ Token bests[kRowThreads / kWarp];
  const int64_t r = blockIdx.x;
  const T* row = logits.row(r);
  const RowSums sums = row_sums<kVectors>(row, vocab, room);
  const double normal = static_cast<double>(sums.max) + log(sums.exp);
  for_best_tokens(
      row, vocab, k, -INFINITY, bests, [&](int32_t token) { return !banned.has(r, token); },
      [&](int i, const Token& best) {
        if (threadIdx.x != 0) return;
        values[r * k + i] = static_cast<float>(static_cast<double>(best.value) - normal);
        indices[r * k + i] = best.index == kNoToken.index ? -1 : best.index;
      });
}

/// One block: one row; thread 0 writes its result, NaN for a label outside of the vocabulary. Grid: rows.
template <typename T, bool kVectors>
__global__ void __launch_bounds__(kRowThreads)
    log_probability_row(Rows<const T> logits, const int32_t* labels, int64_t vocab, float* out) {
  __shared__ double room[kRowThreads / kWarp];
  const int64_t r = blockIdx.x;
  const T* row = logits.row(r);
  const RowSums sums = row_sums<kVectors>(row, vocab, room);
  if (threadIdx.x != 0) return;
  const int32_t label = labels[r];
  const float at_label = label >= 0 && label < vocab ? load(row[label]) : nanf("");
  out[r] = static_cast<float>(static_cast<double>(at_label) - static_cast<double>(sums.max) - log(sums.exp));
}

}  // namespace

void log_softmax_top_k_cuda(Context& context, const LogSoftmaxTopKArgs& args) {
  dispatch_device_dtype(args.logits.dtype, "log_softmax_top_k", [&](auto tag) {
    using T = decltype(tag);
    dispatch_flag(vectors_fit(args.logits), [&](auto vectors) {
      launch({.name = "top_k_row", .grid = static_cast<unsigned>(args.logits.rows), .block = kRowThreads},
             stream_of(context), top_k_row<T, decltype(vectors)::value>, rows_of<T>(args.logits), args.vocab,
             args.k, Banned{args.banned, args.row_banned, args.row_banned_begin}, args.values, args.indices);
    });
  });
}

void log_probability_cuda(Context& context, const LogProbabilityArgs& args) {
  dispatch_device_dtype(args.logits.dtype, "log_probability", [&](auto tag) {
    using T = decltype(tag);
    dispatch_flag(vectors_fit(args.logits), [&](auto vectors) {
      launch({.name = "log_probability_row",
              .grid = static_cast<unsigned>(args.logits.rows),
              .block = kRowThreads},
             stream_of(context), log_probability_row<T, decltype(vectors)::value>, rows_of<T>(args.logits),
             args.labels, args.vocab, args.log_probabilities);
    });
  });
}

}  // namespace ventris
