// SPDX-License-Identifier: Apache-2.0
#include "data/permutation.h"

#include "data/error.h"
#include "data/text/keyed_random.h"

namespace ventris::data {

namespace {

constexpr int kRounds = 8;

}  // namespace

Permutation::Permutation(int64_t size, uint64_t seed, uint64_t epoch) : size_(size), half_bits_(1) {
  if (size < 1) {
    fail(ErrorKind::kBadConfiguration, "a permutation needs at least 1 element, not {}", size);
  }
  while (half_bits_ < 31 && (int64_t{1} << (2 * half_bits_)) < size) {
    ++half_bits_;
  }
  uint64_t state = split_mix(split_mix(seed) ^ (epoch * 0xd1342543de82ef95ull));
  for (uint64_t& key : key_) {
    state = split_mix(state);
    key = state;
  }
}

int64_t Permutation::operator()(int64_t index) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  auto value = static_cast<uint64_t>(index);
  // A bijection of [0, 4^half_bits); iterating it until the value is in [0, size) gives a bijection of [0,
  // size).
  do {
    uint64_t left = value >> half_bits_;
    uint64_t right = value & mask;
    for (int round = 0; round < kRounds; ++round) {
      const uint64_t next =
          left ^ (split_mix(right ^ key_[round % 4] ^ (static_cast<uint64_t>(round) << 56)) & mask);
      left = right;
      right = next;
    }
    value = (left << half_bits_) | right;
  } while (value >= static_cast<uint64_t>(size_));
  return static_cast<int64_t>(value);
}

}  // namespace ventris::data
