#pragma once

#include "backend/packed_gemm.h"

/// packed_bytes(), pack() and packed_gemm() for matrices of Packing::kInt8.
namespace ventris {

size_t int8_packed_bytes_cpu(int64_t rows, int64_t cols);
void int8_pack_cpu(Context& context, const PackArgs& args);
/// The elements of a column, each its integer times the scale: [packed.rows].
void int8_copy_column(const PackedMatrix& packed, int64_t column, float* to);
void int8_gemm_cpu(Context& context, const PackedGemmArgs& args);

}  // namespace ventris
