// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ventris {

/// The seed of dropout and of dropped layers in the second pass of R-Drop (backend/r_drop.h), from that of
/// the first. A pure function, so that the masks do not depend on ranks or micro-batches. The number is no
/// sum of the constants by which Philox changes its key from round to round (backend/philox.h): with those
/// the masks of both passes would share rounds.
constexpr uint64_t second_pass_seed(uint64_t seed) {
  return seed ^ 0x522D44726F70U;
}

}  // namespace ventris
