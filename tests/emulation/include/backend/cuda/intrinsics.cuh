// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>

#include "backend/device/dtype.h"
#include "tests/emulation/block.h"
#include "tests/emulation/runtime.h"

/// backend/cuda/intrinsics.cuh for the CPU; the contracts stand there.
namespace ventris::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xFFFFFFFFU;

inline void sync_threads() {
  emulation::block_barrier();
}
inline void sync_warp() {
  emulation::warp_barrier();
}

template <typename T>
T* dynamic_shared() {
  return reinterpret_cast<T*>(emulation::dynamic_shared_memory());
}

/// What the lanes of the warp gave. Registers, which the race detector does not watch.
template <typename T>
class Given {
 public:
  Given(const char* what, const T& give) : slots_(emulation::warp_exchange(what, &give, sizeof(T))) {
    static_assert(sizeof(T) <= emulation::kSlotBytes);
  }
  __attribute__((no_sanitize("thread"))) T operator[](int lane) const {
    T value;
    std::memcpy(&value, slots_ + static_cast<size_t>(lane) * sizeof(T), sizeof(T));
    return value;
  }

 private:
  const char* slots_;
};

template <typename T>
T shuffle(T value, int lane) {
  return Given<T>("shuffle", value)[lane & 31];
}
template <typename T>
T shuffle_xor(T value, int mask) {
  return Given<T>("shuffle_xor", value)[(emulation::lane() ^ mask) & 31];
}
template <typename T>
T shuffle_down(T value, int distance) {
  const int from = emulation::lane() + distance;
  return Given<T>("shuffle_down", value)[from < kWarp ? from : emulation::lane()];
}
inline unsigned ballot(bool predicate) {
  const Given<bool> given("ballot", predicate);
  unsigned bits = 0;
  for (int l = 0; l < kWarp; ++l) bits |= static_cast<unsigned>(given[l]) << l;
  return bits;
}
inline bool any_lane(bool predicate) {
  return ballot(predicate) != 0;
}
inline bool all_lanes(bool predicate) {
  return ballot(predicate) == kAllLanes;
}

inline uint32_t read_only(const uint32_t* from) {
  return *from;
}

template <typename T>
T atomic_add(T* to, T value) {
  emulation::pass_time();
  return __atomic_fetch_add(to, value, __ATOMIC_RELAXED);
}
inline void atomic_set(int* to, int value) {
  emulation::pass_time();
  __atomic_store_n(to, value, __ATOMIC_RELAXED);
}
/// *to = the better one.
template <typename T, typename Better>
T atomic_choose(T* to, T value, Better better) {
  emulation::pass_time();
  T before = __atomic_load_n(to, __ATOMIC_RELAXED);
  while (better(value, before) &&
         !__atomic_compare_exchange_n(to, &before, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return before;
}
inline unsigned long long atomic_min(unsigned long long* to, unsigned long long value) {
  return atomic_choose(to, value, std::less<>());
}
inline long long atomic_max(long long* to, long long value) {
  return atomic_choose(to, value, std::greater<>());
}

inline uint32_t to_bits(float value) {
  return std::bit_cast<uint32_t>(value);
}
inline float from_bits(uint32_t bits) {
  return std::bit_cast<float>(bits);
}

/// With VENTRIS_EMULATED_ROUNDING the result is up to the 2^-22 off that PTX permits, up or down by the bits
/// of the argument; 2^0 is 1 ("ex2").
__attribute__((always_inline)) inline float fast_exp2(float value) {
  float power = std::exp2(value);
#ifdef VENTRIS_EMULATED_ROUNDING
  constexpr float kError = 0x1p-22F;
  const bool up = to_bits(value) * 0x9E3779B9U >> 31 != 0;
  if (value != 0.0F) power *= up ? 1.0F + kError : 1.0F - kError;
#endif
  return power < FLT_MIN ? 0.0F : power;
}

inline uint16_t to_bf16_bits(float value) {
  return BF16(value).bits;
}
inline uint32_t to_bf16_pair(float low, float high) {
  return static_cast<uint32_t>(to_bf16_bits(high)) << 16 | to_bf16_bits(low);
}
inline float from_bf16_bits(uint16_t bits) {
  return from_bits(static_cast<uint32_t>(bits) << 16);
}

}  // namespace ventris::cuda
