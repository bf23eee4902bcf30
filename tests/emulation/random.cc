// SPDX-License-Identifier: Apache-2.0
#include "tests/emulation/random.h"

#include <fmt/core.h>

#include <atomic>
#include <cstdlib>

namespace ventris::emulation {
namespace {

std::atomic<uint64_t>& chosen() {
  static std::atomic<uint64_t> seed = [] {
    const char* wish = std::getenv("VENTRIS_EMULATED_SEED");
    return wish == nullptr ? uint64_t{1} : std::strtoull(wish, nullptr, 10);
  }();
  return seed;
}
std::atomic<uint64_t> sequences = 0;

}  // namespace

uint64_t seed() {
  return chosen();
}
void set_seed(uint64_t seed) {
  chosen() = seed;
  sequences = 0;
}
std::string seed_text() {
  return fmt::format("VENTRIS_EMULATED_SEED={}", seed());
}
Random next_random() {
  return Random(Random(seed()).next() + Random(sequences++).next());
}

}  // namespace ventris::emulation
