#include <cmath>

#include "backend/cuda/elements.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/softmax_row.cuh"
#include "backend/kernels_cuda.h"
#include "backend/top_k.h"

namespace ventris {
namespace {

using namespace cuda;

/// A token and its logit; the larger logit is better, and for equal ones the smaller index.
struct Token {
  float value;
  int32_t index;
};
__device__ __forceinline__ bool better(const Token& a, const Token& b) {
  return a.value > b.value || (a.value == b.value && a.index < b.index);
}

constexpr Token kNoToken = {-INFINITY, INT32_MAX};

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

/// The best of the tokens of this thread in the block's row that is worse than `last`. NaN counts as
/// -infinity.
template <typename T>
__device__ Token best_after(const T* row, int64_t vocab, const Banned& banned, const Token& last) {
  Token best = kNoToken;
  for (int64_t i = threadIdx.x; i < vocab; i += kRowThreads) {
    const float value = load(row[i]);
    const Token token{value == value ? value : -INFINITY, static_cast<int32_t>(i)};
    if (better(token, best) && better(last, token) && !banned.has(blockIdx.x, token.index)) best = token;
  }
  return best;
}

/// One block: one row; thread 0 writes its k values and indices. Every thread keeps the best of its tokens;
/// the best of all is taken k times, and only its thread searches for its next. Grid: rows; block:
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
  Token mine = best_after(row, vocab, banned, {INFINITY, -1});
  for (int i = 0; i < k; ++i) {
    Token best = mine;
    for (int mask = kWarp / 2; mask > 0; mask /= 2) {
      const Token other{shuffle_xor(best.value, mask), shuffle_xor(best.index, mask)};
      if (better(other, best)) best = other;
    }
    sync_threads();
    if (threadIdx.x % kWarp == 0) bests[threadIdx.x / kWarp] = best;
    sync_threads();
    for (int w = 0; w < kRowThreads / kWarp; ++w) {
      if (better(bests[w], best)) best = bests[w];
    }
    if (threadIdx.x == 0) {
      values[r * k + i] = static_cast<float>(static_cast<double>(best.value) - normal);
      indices[r * k + i] = best.index == kNoToken.index ? -1 : best.index;
    }
    if (best.index == mine.index && best.index != kNoToken.index) mine = best_after(row, vocab, banned, best);
  }
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
