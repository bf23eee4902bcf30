// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "backend/cuda/softmax_row.cuh"

/// The best tokens of one long row by one block of kRowThreads, one after the other.
namespace ventris::cuda {

/// A token and its score; the larger score is better, and for equal ones the smaller index.
struct Token {
  float value;
  int32_t index;
};
__device__ __forceinline__ bool better(const Token& a, const Token& b) {
  return a.value > b.value || (a.value == b.value && a.index < b.index);
}

inline constexpr Token kNoToken = {-INFINITY, INT32_MAX};

/// The best of the tokens of this thread in the block's row that is worse than `last` and that `allows`
/// takes; NaN counts as `nan`.
template <typename T, typename Allows>
__device__ Token best_after(const T* row, int64_t vocab, const Token& last, float nan, const Allows& allows) {
  Token best = kNoToken;
  for (int64_t i = threadIdx.x; i < vocab; i += kRowThreads) {
    const float value = load(row[i]);
    const Token token{value == value ? value : nan, static_cast<int32_t>(i)};
    if (better(token, best) && better(last, token) && allows(token.index)) best = token;
  }
  return best;
}

/// Calls take(i, token) in every thread for the k best in order, or kNoToken where none is left. Every thread
/// keeps the best of its tokens; the best of all is taken k times, and only its thread searches for its next.
/// `bests`: shared memory for one token per warp.
template <typename T, typename Allows, typename Take>
__device__ __forceinline__ void for_best_tokens(const T* row, int64_t vocab, int k, float nan, Token* bests,
                                                const Allows& allows, const Take& take) {
  Token mine = best_after(row, vocab, {INFINITY, -1}, nan, allows);
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
    take(i, best);
    if (best.index == mine.index && best.index != kNoToken.index)
      mine = best_after(row, vocab, best, nan, allows);
  }
}

}  // namespace ventris::cuda
