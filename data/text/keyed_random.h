// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Private to data/.

namespace ventris::data {

inline constexpr uint64_t kSplitMixIncrement = 0x9e3779b97f4a7c15ull;

/// The finaliser of splitmix64 after its increment: every input bit reaches every output bit.
inline uint64_t split_mix(uint64_t x) {
  x += kSplitMixIncrement;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

/// A sequence of random numbers that its key alone selects: splitmix64.
class KeyedRandom {
 public:
  explicit KeyedRandom(uint64_t key) : state_(key) {}
  /// In [0, 1).
  double uniform() {
    const uint64_t bits = split_mix(state_);
    state_ += kSplitMixIncrement;
    return static_cast<double>(bits >> 11) * 0x1p-53;
  }

 private:
  uint64_t state_;
};

}  // namespace ventris::data
