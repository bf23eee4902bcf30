// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ventris::data {

/// A keyed permutation of [0, size): a Feistel network on the next power of four with cycle walking. No
/// memory, any element in O(1).
class Permutation {
 public:
  /// Requires size >= 1. A different (seed, epoch) gives an unrelated order.
  Permutation(int64_t size, uint64_t seed, uint64_t epoch);
  int64_t operator()(int64_t index) const;
  int64_t size() const { return size_; }

 private:
  int64_t size_;
  int half_bits_;
  uint64_t key_[4];
};

}  // namespace ventris::data
