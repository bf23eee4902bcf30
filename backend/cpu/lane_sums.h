// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "backend/cpu/vector.h"

/// Sums over a row whose bits do not depend on the width of the processor's vectors.
namespace ventris {

/// A sum in kCount lanes, the same number on every processor: element i belongs to lane i % kCount. At the
/// end the upper half of the lanes is added to the lower half until one lane is left.
template <typename R, int kCount>
class LaneSums {
 public:
  static_assert(kCount % kLanes<R> == 0);
  static constexpr int kVectors = kCount / kLanes<R>;

  /// Vector v of kCount elements.
  void add(int v, Vector<R> values) { sums_[static_cast<size_t>(v)] += values; }
  /// kCount elements from a multiple of kCount on.
  void add_all(const R* values) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sums_[static_cast<size_t>(v)] += load_vector(values + v * kLanes<R>);
  }
  R total() const {
    std::array<Vector<R>, kVectors> sums = sums_;
#pragma GCC unroll 4
    for (int span = kVectors / 2; span > 0; span /= 2) {
#pragma GCC unroll 4
      for (int v = 0; v < span; ++v) sums[static_cast<size_t>(v)] += sums[static_cast<size_t>(v + span)];
    }
    return reduce_lanes<R>(sums[0], [](Vector<R> x, Vector<R> y) { return x + y; });
  }

 private:
  std::array<Vector<R>, kVectors> sums_{};
};
/// Calls body(j, v) for the vectors of [0, count), a multiple of kLanes, where v is the index of vector j in
/// LaneSums<R, kCount>. The indices are compile-time constants, so that the sums stay in registers.
template <typename R, int kCount, typename Body>
inline void for_vectors(int64_t count, Body&& body) {
  for (int64_t begin = 0; begin < count; begin += kCount) {
#pragma GCC unroll 8
    for (int v = 0; v < LaneSums<R, kCount>::kVectors; ++v) {
      const int64_t j = begin + v * kLanes<R>;
      if (j < count) body(j, v);
    }
  }
}

/// Lanes of the sums over a row.
inline constexpr int kSumLanes = 32;

/// The sums over [0, n) of the two numbers that body(i, a, b) writes to a and b; body may also write other
/// results of i. Calls ahead(i) before each kSumLanes of them.
template <typename M, typename Body, typename Ahead>
std::array<M, 2> lane_sums(int64_t n, Body&& body, Ahead&& ahead) {
  LaneSums<M, kSumLanes> first;
  LaneSums<M, kSumLanes> second;
  alignas(64) M a[kSumLanes];
  alignas(64) M b[kSumLanes];
  int64_t begin = 0;
  for (; begin + kSumLanes <= n; begin += kSumLanes) {
    ahead(begin);
#pragma omp simd
    for (int l = 0; l < kSumLanes; ++l) body(begin + l, a[l], b[l]);
    first.add_all(a);
    second.add_all(b);
  }
  if (begin < n) {
    std::fill_n(a, kSumLanes, M{0});
    std::fill_n(b, kSumLanes, M{0});
    for (int l = 0; begin + l < n; ++l) body(begin + l, a[l], b[l]);
    first.add_all(a);
    second.add_all(b);
  }
  return {first.total(), second.total()};
}
template <typename M, typename Body>
std::array<M, 2> lane_sums(int64_t n, Body&& body) {
  return lane_sums<M>(n, body, [](int64_t) {});
}

/// The sum over [0, n) of body(i).
template <typename M, typename Body>
M lane_sum(int64_t n, Body&& body) {
  LaneSums<M, kSumLanes> sum;
  alignas(64) M a[kSumLanes];
  int64_t begin = 0;
  for (; begin + kSumLanes <= n; begin += kSumLanes) {
#pragma omp simd
    for (int l = 0; l < kSumLanes; ++l) a[l] = body(begin + l);
    sum.add_all(a);
  }
  if (begin < n) {
    std::fill_n(a, kSumLanes, M{0});
    for (int l = 0; begin + l < n; ++l) a[l] = body(begin + l);
    sum.add_all(a);
  }
  return sum.total();
}

/// The sum of x[0, n). Not by a body, which compilers turn into a copy in narrower vectors than are added.
template <typename M>
M lane_sum(const M* x, int64_t n) {
  LaneSums<M, kSumLanes> sum;
  const int64_t whole = n / kSumLanes * kSumLanes;
  for (int64_t i = 0; i < whole; i += kSumLanes) sum.add_all(x + i);
  if (whole < n) {
    alignas(64) M rest[kSumLanes] = {};
    std::copy(x + whole, x + n, rest);
    sum.add_all(rest);
  }
  return sum.total();
}

}  // namespace ventris
