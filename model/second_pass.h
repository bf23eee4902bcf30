#pragma once

#include <cstdint>

namespace ventris {

/// The seed of dropout and of dropped layers in the second pass of R-Drop (backend/r_drop.h), from that of
/// the first. A pure function, so that the masks do not depend on ranks or micro-batches. The number is odd
/// and far from those that people choose as seeds.
constexpr uint64_t second_pass_seed(uint64_t seed) {
  return seed + 0x9E3779B97F4A7C15U;
}

}  // namespace ventris
