// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/device/context.h"

namespace ventris {

/// The elements of a packed matrix. kInt8: 8-bit integers with a scale for each column
/// (backend/ops/int8_scale.h).
enum class Packing { kF32, kBF16, kInt8 };

const char* name_of(Packing packing);

/// The dtype of the other factor of a product with such a matrix.
constexpr DType factor_dtype(Packing packing) {
  return packing == Packing::kBF16 ? DType::kBF16 : DType::kF32;
}
/// The packing that stores `dtype` without conversion: f32 or bf16.
constexpr Packing packing_of(DType dtype) {
  return dtype == DType::kBF16 ? Packing::kBF16 : Packing::kF32;
}

/// Maximum number of rows of an int8 matrix: sums of their products cannot overflow.
inline constexpr int64_t kMaxInt8Rows = int64_t{1} << 16;

/// A view of a matrix of weights [rows, cols] in the order in which packed_gemm reads it: panels of columns
/// side by side, each of them [rows, columns of a panel], in bf16 with two rows interleaved, in int8 with
/// four. CPU only.
struct PackedMatrix {
  void* data = nullptr;  // packed_bytes(), aligned to 64 bytes
  int64_t rows = 0;
  int64_t cols = 0;
  Packing packing = Packing::kF32;

  explicit operator bool() const { return data != nullptr; }
};

/// Depends on the kernels in use (backend/device/instruction_set.h), as the order of the elements does.
size_t packed_bytes(int64_t rows, int64_t cols, Packing packing);

/// Writes columns [first_column, first_column + source columns) of `to`, rounded to its packing. Memory of a
/// bf16 or int8 `to` outside of its columns must be zero.
struct PackArgs {
  ConstTensor source;  // [to.rows, columns] f32, or [columns, to.rows] with transpose
  bool transpose = false;
  PackedMatrix to;
  int64_t first_column = 0;
};
void pack(Context& context, const PackArgs& args);

/// c = [c +] a b [+ bias] [then ReLU] on the CPU. Every element is one chain of multiply-adds in
/// order of k, in f32 (for bf16, pairs of k if the processor multiplies pairs): its bits depend on its row of
/// a and its column of b, not on the number of rows. With an int8 b, rows of a are also quantised to 8-bit
/// integers, each with its own scale, and an element is float(sum of products) * (scale of its row * scale of
/// its column) [+ bias]. The sum is exact: the bits are the same on every processor. If a row or a column
/// contains NaN or an infinity, all its elements are NaN.
struct PackedGemmArgs {
  ConstTensor a;          // [m, k] T
  PackedMatrix b;         // [k, n], T = factor_dtype()
  Tensor c;               // [m, n] T or f32
  ConstTensor bias = {};  // [1, n] f32, or empty
  bool relu = false;
  bool accumulate = false;  // the chains continue from c, which is then f32; not with int8
};
void packed_gemm(Context& context, const PackedGemmArgs& args);

}  // namespace ventris
