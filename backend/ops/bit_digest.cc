// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/bit_digest.h"

#include "backend/ops/kernels.h"
#include "backend/ops/op_checks.h"

namespace ventris {

void bit_digest(Context& context, const BitDigestArgs& args) {
  VENTRIS_CHECK(args.x.data != nullptr || args.x.size() == 0, "x is missing");
  VENTRIS_CHECK(args.x.contiguous(), "x has rows of {} elements {} apart", args.x.cols, args.x.stride);
  VENTRIS_CHECK(args.result != nullptr, "result is missing");
  kernels::bit_digest(context, args);
}

}  // namespace ventris
