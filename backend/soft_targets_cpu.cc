// SPDX-License-Identifier: Apache-2.0
#include "backend/soft_targets.h"

#include <algorithm>
#include <array>
#include <limits>

#include "backend/kernels_cpu.h"
#include "backend/largest_cpu.h"
#include "backend/op_checks.h"

namespace ventris {
namespace {

constexpr int64_t kRows = 4;  // rows of one piece of work

template <typename T>
void run(Context& context, const SoftTargetsArgs& args) {
  using M = Master<T>;
  const int64_t tokens = std::clamp<int64_t>(*args.tokens - args.first_row, 0, args.scores.rows);
  const M inverse = M{1} / static_cast<M>(args.temperature);
  context.pool().for_ranges(tokens, kRows, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      std::array<M, kMostSoftTargets> best;
      Largest<M> largest(best.data(), args.indices + r * args.k, args.k);
      find_largest(
          args.scores.row<T>(r), args.vocab, largest,
          // Infinity less infinity and infinity by infinity are NaN again.
          [](M value) { return value == value ? value : std::numeric_limits<M>::infinity(); },
          [](int32_t) { return true; });
      double sum = 0.0;
      for (int i = args.k; i-- > 0;) {
        M& value = best[static_cast<size_t>(i)];
        if (args.are_logits) value = exp_approx((value - best[0]) * inverse);
        sum += static_cast<double>(value);
      }
      M* p = args.probabilities.row<M>(r);
      for (int i = 0; i < args.k; ++i)
        p[i] = static_cast<M>(static_cast<double>(best[static_cast<size_t>(i)]) / sum);
    }
  });
}

}  // namespace

void soft_targets_cpu(Context& context, const SoftTargetsArgs& args) {
  dispatch_dtype(args.scores.dtype, [&](auto tag) { run<decltype(tag)>(context, args); });
}

}  // namespace ventris
