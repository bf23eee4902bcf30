// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/op_checks.h"

namespace ventris {

void check_tensor(const ConstTensor& tensor, int64_t rows, int64_t cols, DType dtype, const char* name) {
  VENTRIS_CHECK(tensor.data != nullptr || rows == 0 || cols == 0, "{} is missing; expected [{}, {}]", name,
                rows, cols);
  VENTRIS_CHECK(tensor.rows == rows && tensor.cols == cols, "{} is [{}, {}], expected [{}, {}]", name,
                tensor.rows, tensor.cols, rows, cols);
  VENTRIS_CHECK(tensor.dtype == dtype, "{} holds {}, expected {}", name, name_of(tensor.dtype),
                name_of(dtype));
  VENTRIS_CHECK(rows <= 1 || tensor.stride >= cols, "{}: rows of {} columns lie {} apart", name, cols,
                tensor.stride);
}

void check_dropout(const DropoutKey& key) {
  VENTRIS_CHECK(key.rate >= 0.0F && key.rate < 1.0F && key.threshold() < 65536U,
                "the dropout rate is {}, expected at least 0 and below 1", key.rate);
  VENTRIS_CHECK(!key.active() || key.position != nullptr, "dropout of rate {} without a position", key.rate);
}

void need_scratch(Context& context, size_t bytes) {
  const size_t padded = bytes + 16 * 128;
  Arena& scratch = context.scratch();
  if (scratch.capacity() - scratch.used() >= padded) return;
  VENTRIS_CHECK(scratch.used() == 0, "{} bytes of scratch needed, {} of {} are in use; raise scratch_bytes",
                padded, scratch.used(), scratch.capacity());
  context.reserve_scratch(padded);
}

}  // namespace ventris
