// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

/// What the emulated device leaves to chance, as hardware does: the order of blocks, threads, streams and
/// nodes of graphs. All of it follows from one seed.
namespace ventris::emulation {

/// splitmix64.
class Random {
 public:
  explicit Random(uint64_t state) : state_(state) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15U;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9U;
    z = (z ^ z >> 27) * 0x94D049BB133111EBU;
    return z ^ z >> 31;
  }
  /// Below `end`, which is not 0.
  uint64_t below(uint64_t end) { return next() % end; }
  bool one_in(uint64_t count) { return below(count) == 0; }

 private:
  uint64_t state_;
};

/// $VENTRIS_EMULATED_SEED, else 1; or what set_seed() set last.
uint64_t seed();
void set_seed(uint64_t seed);
/// "VENTRIS_EMULATED_SEED=1", for messages.
std::string seed_text();
/// The next of the sequences of numbers that follow from the seed.
Random next_random();

}  // namespace ventris::emulation
