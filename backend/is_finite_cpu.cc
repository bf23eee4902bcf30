// SPDX-License-Identifier: Apache-2.0
#include "backend/is_finite_cpu.h"

#include <atomic>
#include <bit>
#include <cstdint>

#include "backend/simd_cpu.h"

namespace ventris {
namespace {

template <typename T>
bool are_finite(Context& context, const ConstTensor& x) {
  constexpr int64_t kTaskRows = 64;
  std::atomic<bool> finite = true;
  context.pool().for_ranges(x.rows, kTaskRows, [&](int64_t begin, int64_t end, int) {
    int32_t others = 0;
    for (int64_t r = begin; r < end; ++r) {
      const T* const row = x.row<T>(r);
#pragma omp simd reduction(| : others)
      for (int64_t c = 0; c < x.cols; ++c) {
        constexpr int32_t kExponent = 0x7F800000;
        others |= (std::bit_cast<int32_t>(static_cast<float>(load(row[c]))) & kExponent) == kExponent ? 1 : 0;
      }
    }
    if (others != 0) finite.store(false, std::memory_order_relaxed);
  });
  return finite;
}

}  // namespace

bool is_finite_cpu(Context& context, const ConstTensor& x) {
  return x.dtype == DType::kF32 ? are_finite<float>(context, x) : are_finite<BF16>(context, x);
}

}  // namespace ventris
