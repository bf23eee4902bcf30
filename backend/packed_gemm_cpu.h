#pragma once

#include "backend/packed_gemm.h"

namespace ventris {

size_t packed_bytes_cpu(int64_t rows, int64_t cols, Packing packing);
void pack_cpu(Context& context, const PackArgs& args);
/// The elements of a column, as the packed matrix has them. T is its dtype.
template <typename T>
void copy_column(const PackedMatrix& packed, int64_t column, T* to);
void packed_gemm_cpu(Context& context, const PackedGemmArgs& args);

}  // namespace ventris
