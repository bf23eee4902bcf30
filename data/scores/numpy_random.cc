// SPDX-License-Identifier: Apache-2.0
#include "data/scores/numpy_random.h"

#include <array>

namespace ventris::data {
namespace {

constexpr size_t kPoolSize = 4;

/// numpy's SeedSequence(seed): a pool of mixed entropy from which the generator's state is drawn.
class SeedSequence {
 public:
  explicit SeedSequence(uint64_t seed) {
    const std::array<uint32_t, kPoolSize> entropy = {static_cast<uint32_t>(seed),
                                                     static_cast<uint32_t>(seed >> 32)};
    uint32_t constant = 0x43b0d7e5;
    const auto hash = [&constant](uint32_t value) {
      value ^= constant;
      constant *= 0x931e8875;
      value *= constant;
      return value ^ (value >> 16);
    };
    for (size_t i = 0; i < kPoolSize; ++i) pool_[i] = hash(entropy[i]);
    for (size_t from = 0; from < kPoolSize; ++from) {
      for (size_t to = 0; to < kPoolSize; ++to) {
        if (from == to) continue;
        const uint32_t mixed = 0xca01f9dd * pool_[to] - 0x4973f715 * hash(pool_[from]);
        pool_[to] = mixed ^ (mixed >> 16);
      }
    }
  }

  std::array<uint64_t, 4> state() const {
    std::array<uint64_t, 4> words{};
    uint32_t constant = 0x8b51f9dd;
    for (size_t i = 0; i < 2 * words.size(); ++i) {
      uint32_t value = pool_[i % kPoolSize] ^ constant;
      constant *= 0x58f38ded;
      value *= constant;
      value ^= value >> 16;
      words[i / 2] |= static_cast<uint64_t>(value) << (32 * (i % 2));
    }
    return words;
  }

 private:
  std::array<uint32_t, kPoolSize> pool_{};
};

}  // namespace

NumpyRandom::NumpyRandom(uint64_t seed) {
  const std::array<uint64_t, 4> words = SeedSequence(seed).state();
  const Word128 initial = Word128{words[0]} << 64 | words[1];
  const Word128 sequence = Word128{words[2]} << 64 | words[3];
  increment_ = sequence << 1 | 1;
  next64();
  state_ += initial;
  next64();
}

uint64_t NumpyRandom::next64() {
  constexpr Word128 kMultiplier = Word128{0x2360ED051FC65DA4} << 64 | 0x4385DF649FCCF645;
  state_ = state_ * kMultiplier + increment_;
  const auto folded = static_cast<uint64_t>(state_ >> 64) ^ static_cast<uint64_t>(state_);
  const auto rotation = static_cast<unsigned>(state_ >> 122);
  return folded >> rotation | folded << ((64 - rotation) & 63);
}

uint32_t NumpyRandom::next32() {
  if (half_) {
    const uint32_t upper = *half_;
    half_.reset();
    return upper;
  }
  const uint64_t next = next64();
  half_ = static_cast<uint32_t>(next >> 32);
  return static_cast<uint32_t>(next);
}

uint32_t NumpyRandom::below(uint32_t n) {
  if (n == 1) return 0;  // numpy draws nothing
  uint64_t product = static_cast<uint64_t>(next32()) * n;
  if (static_cast<uint32_t>(product) < n) {
    const uint32_t threshold = (0u - n) % n;
    while (static_cast<uint32_t>(product) < threshold) product = static_cast<uint64_t>(next32()) * n;
  }
  return static_cast<uint32_t>(product >> 32);
}

}  // namespace ventris::data
