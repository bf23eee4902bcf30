// SPDX-License-Identifier: Apache-2.0
#include "backend/zero_ranges.h"

#include "backend/cast.h"
#include "backend/op_checks.h"
#include "backend/zero_ranges_cuda.h"

namespace ventris {

void zero_ranges(Context& context, Tensor flat, std::span<const FlatRange> ranges) {
  check_tensor(flat, 1, flat.cols, flat.dtype, "flat");
  check_ranges(ranges, flat.cols);
  if constexpr (kHasCuda) {
    if (context.device() == Device::kCuda) return zero_ranges_cuda(context, flat, ranges);
  }
  for (const FlatRange& range : ranges) fill_zero(context, flat.col_range(range.begin, range.count));
}

}  // namespace ventris
