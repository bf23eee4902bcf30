#pragma once

#include "backend/context.h"

namespace ventris {

/// What the elements of a packed matrix are. kInt8: 8-bit integers with a scale for each column
/// (backend/int8_scale.h).
enum class Packing { kF32, kBF16, kInt8 };

const char* name_of(Packing packing);

/// The dtype of what is multiplied with such a matrix.
constexpr DType factor_dtype(Packing packing) {
  return packing == Packing::kBF16 ? DType::kBF16 : DType::kF32;
}
/// The packing that holds numbers of `dtype` as they are: f32 or bf16.
constexpr Packing packing_of(DType dtype) {
  return dtype == DType::kBF16 ? Packing::kBF16 : Packing::kF32;
}

/// Most rows of an int8 matrix: sums of their products are far from overflowing.
inline constexpr int64_t kMaxInt8Rows = int64_t{1} << 16;

/// A view of a matrix of weights [rows, cols] in the order in which packed_gemm reads it: panels of columns
/// side by side, each of them [rows, columns of a panel], in bf16 with two rows interleaved, in int8 with
/// four. On the CPU alone.
struct PackedMatrix {
  void* data = nullptr;  // packed_bytes(), aligned to 64 bytes
  int64_t rows = 0;
  int64_t cols = 0;
  Packing packing = Packing::kF32;

  explicit operator bool() const { return data != nullptr; }
};

/// Depends on the kernels in use (backend/instruction_set.h), as the order of the elements does.
size_t packed_bytes(int64_t rows, int64_t cols, Packing packing);

/// Writes columns [first_column, first_column + source columns) of `to`, rounded to its packing. Memory of a
/// bf16 or int8 `to` that no column covers must be zero.
struct PackArgs {
  ConstTensor source;  // [to.rows, columns] f32, or [columns, to.rows] with transpose
  bool transpose = false;
  PackedMatrix to;
  int64_t first_column = 0;
};
void pack(Context& context, const PackArgs& args);

/// c = [c +] a b [+ bias] [then ReLU] on the CPU. Every element is one chain of multiply-adds in
/// order of k, in f32 (for bf16, pairs of k where the processor multiplies pairs): its bits depend on its row
/// of a and its column of b, not on how many rows there are.
///
/// With an int8 b, rows of a are made 8-bit integers too, each with a scale of its own, and an element is
/// float(sum of products) * (scale of its row * scale of its column) [+ bias]. The sum is exact: the bits are
/// the same on every processor. Where a row or a column holds NaN or an infinity, all its elements are NaN.
struct PackedGemmArgs {
  ConstTensor a;          // [m, k] T
  PackedMatrix b;         // [k, n], T = factor_dtype()
  Tensor c;               // [m, n] T or f32
  ConstTensor bias = {};  // [1, n] f32, or empty
  bool relu = false;
  bool accumulate = false;  // the chains go on from c, which is f32 then; not with int8
};
void packed_gemm(Context& context, const PackedGemmArgs& args);

}  // namespace ventris
