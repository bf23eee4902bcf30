// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "backend/device/context.h"
#include "backend/device/has_cuda.h"
#include "backend/ops/dropout.h"

/// Checks of the arguments of operations. All throw Error(kInternal) naming the values.
namespace ventris {

/// `name` is the name of the argument in its struct.
void check_tensor(const ConstTensor& tensor, int64_t rows, int64_t cols, DType dtype, const char* name);

inline void check_optional(const ConstTensor& tensor, int64_t rows, int64_t cols, DType dtype,
                           const char* name) {
  if (tensor) check_tensor(tensor, rows, cols, dtype, name);
}

void check_dropout(const DropoutKey& key);

/// Reserves `bytes`, plus the alignment of a few pieces, in the scratch arena. An arena in use cannot grow.
void need_scratch(Context& context, size_t bytes);

}  // namespace ventris
