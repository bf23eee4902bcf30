// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "backend/device/philox.h"

namespace ventris {

/// The position of a mask. In device memory, so that a captured step serves every step.
struct DropoutPosition {
  uint32_t step;
  uint32_t row_base;  // index in the global batch of the first row
};

/// Names the dropout mask of one place in the network in one step. Element (row, column) of the mask is a
/// pure function of this key, of the token's index in the global batch (row_base + row) and of the column,
/// independent of the number of threads, ranks or micro-batches.
///
/// The 16-bit number of element (row, column) is piece `column % 8` (little end first) of Philox4x32-10 at
/// counter {column / 8, row_base + row, place, step} and key {low 32 bits of seed, high 32 bits of seed}. The
/// element is dropped where that number is below threshold(); kept elements are multiplied by
/// scale() = 1 / (1 - threshold() / 65536). Attention dropout uses place + head, the query token as row and
/// the key's index in its sentence as column.
struct DropoutKey {
  float rate = 0.0F;  // in [0, 1); 0 means no dropout
  uint64_t seed = 0;
  uint32_t place = 0;  // the place in the network; the low 8 bits are left for attention heads
  const DropoutPosition* position = nullptr;  // on the device; required if active()

  uint32_t threshold() const { return static_cast<uint32_t>(std::lround(rate * 65536.0F)); }
  double scale() const { return 65536.0 / (65536.0 - threshold()); }
  bool active() const { return threshold() != 0; }
};

/// The eight 16-bit numbers of columns [8 * block, 8 * block + 8) of one row; the definition that every
/// kernel follows. On the CPU.
inline std::array<uint16_t, 8> dropout_bits(const DropoutKey& key, uint32_t row, uint32_t block,
                                            uint32_t head = 0) {
  const auto r = philox4x32_10({block, key.position->row_base + row, key.place + head, key.position->step},
                               {static_cast<uint32_t>(key.seed), static_cast<uint32_t>(key.seed >> 32)});
  std::array<uint16_t, 8> bits;
  for (int i = 0; i < 4; ++i) {
    bits[2 * i] = static_cast<uint16_t>(r[i]);
    bits[2 * i + 1] = static_cast<uint16_t>(r[i] >> 16);
  }
  return bits;
}

}  // namespace ventris
