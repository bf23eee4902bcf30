#pragma once

#include <cstdint>

// Private to data/.

namespace ventris::data {

/// The finaliser of splitmix64 after its increment: every input bit reaches every output bit.
inline uint64_t split_mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

}  // namespace ventris::data
