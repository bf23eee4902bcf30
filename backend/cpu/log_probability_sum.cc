// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "backend/cpu/simd.h"
#include "backend/ops/log_probability_sum.h"
#include "backend/ops/op_checks.h"

namespace ventris {
namespace {

constexpr int64_t kRows = 4;  // rows of one piece of work

/// log(e^x + e^y); -infinity if both are.
template <typename M>
M log_add(M x, M y) {
  const M larger = x > y ? x : y;
  if (larger == -std::numeric_limits<M>::infinity()) return larger;
  const M smaller = x > y ? y : x;
  return larger + static_cast<M>(portable_log1p(portable_exp(static_cast<double>(smaller - larger))));
}

template <typename T>
void add(Context& context, const LogProbabilitySumArgs& args) {
  using M = Master<T>;
  context.pool().for_ranges(args.logits.rows, kRows, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const T* x = args.logits.row<T>(r);
      M* sum = args.sum.row<M>(r);
      const M max = row_max(x, args.vocab);
      const double normal = static_cast<double>(max) + portable_log(row_exp_sum(x, args.vocab, max));
      for (int64_t w = 0; w < args.vocab; ++w) {
        const M value = static_cast<M>(static_cast<double>(load(x[w])) - normal);
        sum[w] = args.first ? value : log_add(sum[w], value);
      }
    }
  });
}

}  // namespace

void log_probability_sum_cpu(Context& context, const LogProbabilitySumArgs& args) {
  dispatch_dtype(args.logits.dtype, [&](auto tag) { add<decltype(tag)>(context, args); });
}

}  // namespace ventris
