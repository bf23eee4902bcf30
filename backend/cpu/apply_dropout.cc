// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/apply_dropout.h"
#include "backend/cpu/dropout.h"
#include "backend/cpu/simd.h"
#include "backend/ops/op_checks.h"

namespace ventris {
namespace {

constexpr int64_t kRows = 16;  // rows of one piece of work

template <typename T>
void apply(Context& context, const ApplyDropoutArgs& args) {
  using M = Master<T>;
  const int64_t cols = args.x.cols;
  const int64_t room = dropout_room(1, cols);
  const int threads = context.pool().threads();
  need_scratch(context, static_cast<size_t>(threads * room) * sizeof(uint16_t));
  ArenaScope scope(context.scratch());
  uint16_t* all_bits = context.scratch().allocate_array<uint16_t>(threads * room);
  const auto threshold = static_cast<uint16_t>(args.dropout.threshold());
  const M scale = static_cast<M>(args.dropout.scale());
  context.pool().for_ranges(args.x.rows, kRows, [&](int64_t begin, int64_t end, int thread) {
    uint16_t* bits = all_bits + thread * room;
    for (int64_t row = begin; row < end; ++row) {
      dropout_row(args.dropout, static_cast<uint32_t>(row), cols, 0, bits);
      T* x = args.x.row<T>(row);
#pragma omp simd
      for (int64_t c = 0; c < cols; ++c) {
        const M kept = load(x[c]) * scale;
        store(x[c], bits[c] < threshold ? M{0} : kept);
      }
    }
  });
}

}  // namespace

void apply_dropout_cpu(Context& context, const ApplyDropoutArgs& args) {
  dispatch_dtype(args.x.dtype, [&](auto tag) { apply<decltype(tag)>(context, args); });
}

}  // namespace ventris
