// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/ops/packed_gemm.h"

namespace ventris {

size_t packed_bytes_cpu(int64_t rows, int64_t cols, Packing packing);
/// Also takes a source in bf16.
void pack_cpu(Context& context, const PackArgs& args);
/// The elements of a column as stored in the packed matrix. T is its dtype.
template <typename T>
void copy_column(const PackedMatrix& packed, int64_t column, T* to);

}  // namespace ventris
