#pragma once

#include "backend/context.h"

namespace ventris {

/// A view of a matrix of weights [rows, cols] in the order in which packed_gemm reads it: panels of columns
/// side by side, each of them [rows, columns of a panel], in bf16 with two rows interleaved. On the CPU
/// alone.
struct PackedMatrix {
  void* data = nullptr;  // packed_bytes(), aligned to 64 bytes
  int64_t rows = 0;
  int64_t cols = 0;
  DType dtype = DType::kF32;  // f32 or bf16

  explicit operator bool() const { return data != nullptr; }
};

/// Depends on the kernels in use (backend/instruction_set.h), as the order of the elements does.
size_t packed_bytes(int64_t rows, int64_t cols, DType dtype);

/// Writes columns [first_column, first_column + source columns) of `to`, rounded to its dtype. Memory of a
/// bf16 `to` that no column covers must be zero.
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
struct PackedGemmArgs {
  ConstTensor a;          // [m, k] T
  PackedMatrix b;         // [k, n] T
  Tensor c;               // [m, n] T or f32
  ConstTensor bias = {};  // [1, n] f32, or empty
  bool relu = false;
  bool accumulate = false;  // the chains go on from c, which is f32 then
};
void packed_gemm(Context& context, const PackedGemmArgs& args);

}  // namespace ventris
