// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "backend/device/tensor.h"

/// What the tests of sums in the order of a tree add, and the result.
namespace ventris::testing {

template <typename T>
Tensor flat(std::vector<T>& data) {
  const auto count = static_cast<int64_t>(data.size());
  return {data.data(), 1, count, count, DTypeOf<T>::value};
}

/// What shard `shard` gives at an element: of either sign and of all sizes, so that the order of a sum shows.
/// Not inlined: no product in it may be fused with a sum of the caller.
[[gnu::noinline]] inline float gradient(int64_t shard, size_t element, int step) {
  const auto k = static_cast<float>(
      (element * 37 + static_cast<size_t>(shard) * 101 + static_cast<size_t>(step) * 7) % 1009);
  return (k - 504.0F) / 77.0F *
         std::pow(10.0F, -static_cast<float>((element + 3 * static_cast<size_t>(shard)) % 7));
}

inline double loss(int64_t shard, int which) {
  return (which == 0 ? 1.0 : 3.0) / static_cast<double>(shard + 3);
}

/// Terms 0 .. n - 1 in the order of the tree, by its definition.
template <typename Sum, typename Term>
Sum tree_sum(int64_t begin, int64_t end, const Term& term) {
  if (end - begin == 1) return term(begin);
  const auto half = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(end - begin - 1)));
  const Sum left = tree_sum<Sum>(begin, begin + half, term);
  return left + tree_sum<Sum>(begin + half, end, term);
}

}  // namespace ventris::testing
