// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/ops/packed_gemm.h"

/// Matrices of Packing::kInt8. What they do is said of packed_bytes() and pack().
namespace ventris {

size_t int8_packed_bytes_cpu(int64_t rows, int64_t cols);
void int8_pack_cpu(Context& context, const PackArgs& args);
/// The elements of a column, each its integer times the scale: [packed.rows].
void int8_copy_column(const PackedMatrix& packed, int64_t column, float* to);

}  // namespace ventris
