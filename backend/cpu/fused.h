// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "backend/cpu/vector.h"

#if defined(__FMA__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace ventris {

/// value in all lanes.
template <typename R>
inline Vector<R> in_all_lanes(R value) {
  return value - Vector<R>{};
}

/// a * b + c in each lane, rounded once. The compiler fuses nothing automatically (-ffp-contract=off), as
/// compilers differ in what they fuse.
inline Vector<float> fused(Vector<float> a, Vector<float> b, Vector<float> c) {
#if defined(__AVX512F__)
  return (Vector<float>)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
  return (Vector<float>)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__aarch64__)
  return (Vector<float>)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
  for (int l = 0; l < kLanes<float>; ++l) c[l] = std::fma(a[l], b[l], c[l]);
  return c;
#endif
}
inline Vector<double> fused(Vector<double> a, Vector<double> b, Vector<double> c) {
#if defined(__AVX512F__)
  return (Vector<double>)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(__FMA__)
  return (Vector<double>)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#elif defined(__aarch64__)
  return (Vector<double>)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
#else
  for (int l = 0; l < kLanes<double>; ++l) c[l] = std::fma(a[l], b[l], c[l]);
  return c;
#endif
}

}  // namespace ventris
