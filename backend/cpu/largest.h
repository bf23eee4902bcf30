// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cpu/simd.h"

/// The largest elements of a row, for a search.
namespace ventris {

/// The k largest so far, descending; equal ones in order of insertion.
template <typename M>
class Largest {
 public:
  Largest(M* values, int32_t* indices, int k) : values_(values), indices_(indices), k_(k) {}

  bool full() const { return count_ == k_; }
  int count() const { return count_; }
  M smallest() const { return values_[count_ - 1]; }
  bool takes(M value) const { return !full() || value > smallest(); }

  void insert(M value, int32_t index) {
    int at = full() ? k_ - 1 : count_++;
    for (; at > 0 && value > values_[at - 1]; --at) {
      values_[at] = values_[at - 1];
      indices_[at] = indices_[at - 1];
    }
    values_[at] = value;
    indices_[at] = index;
  }

 private:
  M* values_;         // [k]
  int32_t* indices_;  // [k]
  int k_;
  int count_ = 0;
};

/// Inserts value(x[i]) of all i in [0, n) for which allows(i).
template <typename T, typename Value, typename Allows>
void find_largest(const T* x, int64_t n, Largest<Master<T>>& largest, Value&& value, Allows&& allows) {
  using M = Master<T>;
  constexpr int kBlock = 32;  // elements compared with the smallest of the k at a time
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t end = std::min(n, begin + kBlock);
    if (largest.full() && end - begin == kBlock) {
      const M smallest = largest.smallest();
      int larger = 0;
#pragma omp simd reduction(| : larger)
      for (int l = 0; l < kBlock; ++l) larger |= value(load(x[begin + l])) > smallest ? 1 : 0;
      if (larger == 0) continue;
    }
    for (int64_t i = begin; i < end; ++i) {
      const M element = value(load(x[i]));
      const auto index = static_cast<int32_t>(i);
      if (largest.takes(element) && allows(index)) largest.insert(element, index);
    }
  }
}

}  // namespace ventris
