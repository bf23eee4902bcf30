// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "backend/cpu/small_matmul.h"

/// What products of a few rows with a panel of columns share: sums in registers.
namespace ventris {

using Sum = Vector<float>;

inline constexpr int kPanelVectors = kMaxVectors;
/// Rows whose sums are in registers at a time: with AVX2 twelve of 16.
inline constexpr int kBlockRows = 6;

inline constexpr int64_t kLine = 64;  // bytes of a line of the cache

template <typename T>
inline constexpr int64_t kOfLine = kLine / static_cast<int64_t>(sizeof(T));

/// Calls steps(k, count) for [0, depth) in order, kRound at a time, and before each whole round fetch(k), to
/// fetch what comes after the product: hardware foresees neither the rows of the next one nor its results.
template <int64_t kRound, typename Steps, typename Fetch>
[[gnu::always_inline]] inline void in_rounds(int64_t depth, Steps&& steps, Fetch&& fetch) {
  int64_t k = 0;
  for (; k + kRound <= depth; k += kRound) {
    fetch(k);
    steps(k, kRound);
  }
  if (k < depth) steps(k, depth - k);
}

/// Calls body(row, vector, sum).
template <int kCount, typename S, typename Body>
[[gnu::always_inline]] inline void each_sum(S (&sum)[kCount][kPanelVectors], Body&& body) {
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kPanelVectors; ++v) body(i, v, sum[i][v]);
  }
}

template <int kCount>
[[gnu::always_inline]] inline void load_sums(const float* from, int64_t stride,
                                             Sum (&sum)[kCount][kPanelVectors]) {
  each_sum(sum,
           [&](int i, int v, Sum& value) { value = load_vector(from + i * stride + v * kLanes<float>); });
}

template <int kCount>
[[gnu::always_inline]] inline void store_sums(const Sum (&sum)[kCount][kPanelVectors], float* to,
                                              int64_t stride) {
  each_sum(sum,
           [&](int i, int v, const Sum& value) { store_vector(to + i * stride + v * kLanes<float>, value); });
}

/// sum[i] += row i of a times `depth` rows of the panel b, in order of depth.
template <int kCount>
[[gnu::always_inline]] inline void multiply_steps(int64_t depth, const float* a, int64_t row_step,
                                                  const float* b, Sum (&sum)[kCount][kPanelVectors]) {
  constexpr int64_t kPanel = kPanelVectors * kLanes<float>;
  // Where two threads share a core its instructions are the limit, not its multipliers.
#pragma GCC unroll 4
  for (int64_t k = 0; k < depth; ++k) {
    Sum row[kPanelVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kPanelVectors; ++v) row[v] = load_vector(b + k * kPanel + v * kLanes<float>);
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      const Sum factor = in_all_lanes(a[i * row_step + k]);
#pragma GCC unroll 4
      for (int v = 0; v < kPanelVectors; ++v) sum[i][v] = fused(factor, row[v], sum[i][v]);
    }
  }
}

}  // namespace ventris
