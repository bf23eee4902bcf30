// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/column_sums.h"

#include "backend/cuda/column_sums.h"
#include "backend/ops/op_checks.h"

namespace ventris {

void complete_column_sums([[maybe_unused]] Context& context) {
  if constexpr (kHasCuda) {
    if (context.device() == Device::kCuda) complete_column_sums_cuda(context);
  }
}

}  // namespace ventris
