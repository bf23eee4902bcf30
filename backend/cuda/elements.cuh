// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "backend/cuda/intrinsics.cuh"
#include "backend/device/context.h"
#include "backend/device/error.h"
#include "backend/device/tensor.h"
#include "backend/ops/dropout.h"

/// Shared by the CUDA kernels: rows of elements eight at a time, the dropout mask, sums over warps and
/// blocks.
namespace ventris::cuda {

/// Elements that a thread processes at a time: 16 bytes of bf16, 32 of f32, and one block of dropout numbers.
inline constexpr int kPack = 8;

inline constexpr float kLog2E = 1.44269504088896F;  // exponentials are powers of two
inline constexpr float kLn2 = 0.693147180559945F;

__device__ __forceinline__ float load(float value) {
  return value;
}
__device__ __forceinline__ float load(BF16 value) {
  return from_bf16_bits(value.bits);
}
__device__ __forceinline__ void store(float& to, float value) {
  to = value;
}
__device__ __forceinline__ void store(BF16& to, float value) {
  to.bits = to_bf16_bits(value);
}

/// A matrix as an argument of kernels.
template <typename T>
struct Rows {
  T* data = nullptr;
  int64_t stride = 0;

  __device__ __forceinline__ T* row(int64_t r) const { return data + r * stride; }
};
template <typename T>
Rows<T> rows_of(const Tensor& tensor) {
  return {tensor ? tensor.as<T>() : nullptr, tensor.stride};
}
template <typename T>
Rows<const T> rows_of(const ConstTensor& tensor) {
  return {tensor ? tensor.as<T>() : nullptr, tensor.stride};
}

/// Whether the whole packs of a row can be moved as vectors of 16 bytes (true for a missing matrix).
inline bool vectors_fit(const ConstTensor& tensor) {
  return !tensor || (reinterpret_cast<uintptr_t>(tensor.data) % 16 == 0 &&
                     (tensor.rows <= 1 || tensor.stride % kPack == 0));
}
template <typename... Tensors>
bool all_vectors_fit(const Tensors&... tensors) {
  return (vectors_fit(tensors) && ...);
}

/// The elements of a pack as they lie in memory, where it is aligned to 16 bytes.
template <typename T>
struct alignas(16) Packed {
  uint32_t word[kPack * sizeof(T) / sizeof(uint32_t)];
};
__device__ __forceinline__ void unpack(const Packed<float>& from, float (&v)[kPack]) {
  for (int i = 0; i < kPack; ++i) v[i] = from_bits(from.word[i]);
}
__device__ __forceinline__ void unpack(const Packed<BF16>& from, float (&v)[kPack]) {
  for (int i = 0; i < kPack / 2; ++i) {
    v[2 * i] = from_bits(from.word[i] << 16);
    v[2 * i + 1] = from_bits(from.word[i] & 0xFFFF0000U);
  }
}
template <typename T>
__device__ __forceinline__ Packed<T> pack(const float (&v)[kPack]) {
  Packed<T> packed;
  if constexpr (std::is_same_v<T, float>) {
    for (int i = 0; i < kPack; ++i) packed.word[i] = to_bits(v[i]);
  } else {
    for (int i = 0; i < kPack / 2; ++i) packed.word[i] = to_bf16_pair(v[2 * i], v[2 * i + 1]);
  }
  return packed;
}

/// Elements [begin, begin + kPack) of a row of `cols`; zeros after its end. With kVectors the row is aligned
/// to 16 bytes.
template <bool kVectors, typename T>
__device__ __forceinline__ Packed<T> load_packed(const T* row, int64_t begin, int64_t cols) {
  if (kVectors && begin + kPack <= cols) return *reinterpret_cast<const Packed<T>*>(row + begin);
  float v[kPack];
  for (int i = 0; i < kPack; ++i) v[i] = begin + i < cols ? load(row[begin + i]) : 0.0F;
  return pack<T>(v);
}
template <bool kVectors, typename T>
__device__ __forceinline__ void load_pack(const T* row, int64_t begin, int64_t cols, float (&v)[kPack]) {
  unpack(load_packed<kVectors>(row, begin, cols), v);
}
template <bool kVectors, typename T>
__device__ __forceinline__ void store_pack(T* row, int64_t begin, int64_t cols, const float (&v)[kPack]) {
  if (kVectors && begin + kPack <= cols) {
    *reinterpret_cast<Packed<T>*>(row + begin) = pack<T>(v);
  } else {
    for (int i = 0; i < kPack && begin + i < cols; ++i) store(row[begin + i], v[i]);
  }
}

/// The same for rows of whole packs alone (kWhole), without instructions for a part of one, or of any
/// elements: zeros from `cols` on, which are not stored.
template <bool kWhole, typename T>
__device__ __forceinline__ Packed<T> load_row_pack(const T* row, int begin, int cols) {
  if constexpr (!kWhole) return load_packed<false>(row, begin, cols);
  return begin < cols ? *reinterpret_cast<const Packed<T>*>(row + begin) : Packed<T>{};
}
template <bool kWhole, typename T>
__device__ __forceinline__ void store_row_pack(T* row, int begin, int cols, const float (&v)[kPack]) {
  if constexpr (!kWhole) return store_pack<false>(row, begin, cols, v);
  if (begin < cols) *reinterpret_cast<Packed<T>*>(row + begin) = pack<T>(v);
}

/// v after a store to T and a load.
template <typename T>
__device__ __forceinline__ float rounded(float value) {
  T stored;
  store(stored, value);
  return load(stored);
}

/// DropoutKey for kernels. Its position is read on the device, so that a captured kernel serves every step.
struct Mask {
  uint32_t threshold = 0;  // 0: no dropout
  float scale = 1.0F;
  uint32_t seed_low = 0;
  uint32_t seed_high = 0;
  uint32_t place = 0;
  const DropoutPosition* position = nullptr;

  Mask() = default;
  explicit Mask(const DropoutKey& key)
      : threshold(key.threshold()),
        scale(static_cast<float>(key.scale())),
        seed_low(static_cast<uint32_t>(key.seed)),
        seed_high(static_cast<uint32_t>(key.seed >> 32)),
        place(key.place),
        position(key.position) {}

  /// Bit i is set if column kPack * block + i of the row is kept (backend/ops/dropout.h). Requires a
  /// threshold.
  __device__ __forceinline__ uint32_t kept(uint32_t row, uint32_t block, uint32_t head = 0) const {
    uint32_t c0 = block, c1 = read_only(&position->row_base) + row;
    uint32_t c2 = place + head, c3 = read_only(&position->step);
    uint32_t k0 = seed_low, k1 = seed_high;
    for (int round = 0; round < 10; ++round) {
      const uint64_t p0 = uint64_t{0xD2511F53U} * c0;
      const uint64_t p1 = uint64_t{0xCD9E8D57U} * c2;
      c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
      c1 = static_cast<uint32_t>(p1);
      c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
      c3 = static_cast<uint32_t>(p0);
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
    const uint32_t word[4] = {c0, c1, c2, c3};
    uint32_t bits = 0;
    for (int i = 0; i < 4; ++i) {
      bits |= static_cast<uint32_t>((word[i] & 0xFFFFU) >= threshold) << (2 * i);
      bits |= static_cast<uint32_t>((word[i] >> 16) >= threshold) << (2 * i + 1);
    }
    return bits;
  }
  /// v = v * mask for one pack.
  __device__ __forceinline__ void apply(uint32_t row, uint32_t block, float (&v)[kPack]) const {
    if (threshold == 0) return;
    const uint32_t bits = kept(row, block);
    for (int i = 0; i < kPack; ++i) v[i] = (bits >> i & 1U) != 0 ? v[i] * scale : 0.0F;
  }
};

/// Reduces over the lanes of a warp, as a fixed tree; every lane gets the result.
template <typename V>
__device__ __forceinline__ V warp_sum(V value) {
  for (int mask = kWarp / 2; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
  return value;
}
__device__ __forceinline__ float warp_max(float value) {
  for (int mask = kWarp / 2; mask > 0; mask /= 2) {
    const float other = shuffle_xor(value, mask);
    value = other > value ? other : value;
  }
  return value;
}

/// Reduces over a block of whole warps, as a fixed tree; every thread gets the result. `room`: one V per warp
/// of shared memory, free again after the next sync_threads.
template <typename V>
__device__ __forceinline__ V block_sum(V value, V* room) {
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  value = warp_sum(value);
  sync_threads();
  if (threadIdx.x % kWarp == 0) room[threadIdx.x / kWarp] = value;
  sync_threads();
  V total = room[0];
  for (int w = 1; w < warps; ++w) total += room[w];
  return total;
}

/// Calls body(T{}) with the element type of `dtype`; f64 is for CPUs.
template <typename Body>
void dispatch_device_dtype(DType dtype, const char* operation, Body&& body) {
  VENTRIS_CHECK(dtype == DType::kF32 || dtype == DType::kBF16, "{} on cuda supports f32 or bf16, not {}",
                operation, name_of(dtype));
  if (dtype == DType::kF32) {
    body(float{});
  } else {
    body(BF16{});
  }
}
/// Calls body(std::true_type) or body(std::false_type).
template <typename Body>
void dispatch_flag(bool flag, Body&& body) {
  if (flag) {
    body(std::true_type{});
  } else {
    body(std::false_type{});
  }
}

}  // namespace ventris::cuda
