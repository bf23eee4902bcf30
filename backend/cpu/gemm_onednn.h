// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "backend/device/dtype.h"

namespace ventris {

/// The properties for which a primitive of the GEMM library is created; addresses are passed with the call.
struct GemmShape {
  DType dtype;  // of a and b: bf16, or f32
  DType c_dtype;
  bool transpose_a = false;
  bool transpose_b = false;
  bool bias = false;
  bool relu = false;
  bool accumulate = false;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t a_stride = 0;
  int64_t b_stride = 0;
  int64_t c_stride = 0;

  bool operator==(const GemmShape&) const = default;
};

struct GemmShapeHash {
  size_t operator()(const GemmShape& s) const {
    uint64_t hash = static_cast<uint64_t>(s.dtype) | static_cast<uint64_t>(s.c_dtype) << 2 |
                    uint64_t{s.transpose_a} << 4 | uint64_t{s.transpose_b} << 5 | uint64_t{s.bias} << 6 |
                    uint64_t{s.relu} << 7 | uint64_t{s.accumulate} << 8;
    for (const int64_t value : {s.m, s.n, s.k, s.a_stride, s.b_stride, s.c_stride}) {
      hash = (hash ^ static_cast<uint64_t>(value)) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 29;
    }
    return static_cast<size_t>(hash);
  }
};

/// Primitives of oneDNN, by shape, with the memory that each thread needs to run them. Creating one compiles
/// machine code and takes milliseconds, so onednn_gemm() cuts its work into few shapes; a step whose shapes
/// are all known creates none.
class GemmCache {
 public:
  explicit GemmCache(int threads);
  ~GemmCache();
  GemmCache(const GemmCache&) = delete;
  GemmCache& operator=(const GemmCache&) = delete;

  /// Creates the primitive unless it exists. False if oneDNN has none for this machine (bf16 on an old CPU).
  /// Not to be called while other threads run primitives.
  bool prepare(const GemmShape& shape);
  /// Runs a prepared primitive on one thread of the pool. `bias` is read if shape.bias.
  void run(const GemmShape& shape, int thread, const void* a, const void* b, const void* bias, void* c) const;

  /// At least `bytes` of memory for padded copies of operands; valid until the next call.
  void* padding(size_t bytes);
  /// The number of primitives created so far.
  size_t size() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Whether oneDNN has products of bf16 for the instructions in use.
bool library_multiplies_bf16();

/// The library of gemm() with its version and the instruction set that it uses here, e.g. "oneDNN 2.6.3,
/// AVX-512, bf16".
std::string gemm_library();

}  // namespace ventris
