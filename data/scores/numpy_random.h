// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

namespace ventris::data {

/// The generator of numpy.random.default_rng(seed): PCG64 (O'Neill 2014) seeded by numpy's SeedSequence. The
/// tests of significance.h draw from it what sacreBLEU 2.6.0 draws, so that intervals and p-values are the
/// same.
class NumpyRandom {
 public:
  explicit NumpyRandom(uint64_t seed);
  uint64_t next64();
  uint32_t next32();
  /// Uniform below n >= 1, without bias (Lemire 2019), as Generator.integers(n) draws an element.
  uint32_t below(uint32_t n);

 private:
  __extension__ using Word128 = unsigned __int128;
  Word128 state_ = 0;
  Word128 increment_ = 0;
  std::optional<uint32_t> half_;  // upper half of the last number, whose lower half is used
};

}  // namespace ventris::data
