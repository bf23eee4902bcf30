// SPDX-License-Identifier: Apache-2.0
#include "backend/tempered_softmax.h"

#include <algorithm>
#include <cmath>

#include "backend/kernels_cpu.h"
#include "backend/op_checks.h"
#include "backend/simd_cpu.h"

namespace ventris {
namespace {

constexpr int64_t kRows = 8;  // rows of one piece of work

template <typename T>
void run(Context& context, const TemperedSoftmaxArgs& args) {
  using M = Master<T>;
  const int64_t tokens = std::clamp<int64_t>(*args.tokens - args.first_row, 0, args.logits.rows);
  const M inverse = M{1} / static_cast<M>(args.temperature);
  context.pool().for_ranges(tokens, kRows, [&](int64_t first, int64_t last, int) {
    for (int64_t t = first; t < last; ++t) {
      const T* x = args.logits.row<T>(t);
      M* p = args.probabilities.row<M>(t);
      const M max = row_max(x, args.vocab);
      const auto exponent = [=](M logit) { return (logit - max) * inverse; };
      const double sum = row_exp_sum(x, args.vocab, max, inverse);
      const M scale = static_cast<M>(static_cast<double>(args.factor) / sum);
      if (args.accumulate) {
#pragma omp simd
        for (int64_t i = 0; i < args.vocab; ++i)
          p[i] = std::fma(exp_approx(exponent(load(x[i]))), scale, p[i]);
      } else {
#pragma omp simd
        for (int64_t i = 0; i < args.vocab; ++i) p[i] = exp_approx(exponent(load(x[i]))) * scale;
      }
    }
  });
}

}  // namespace

void tempered_softmax_cpu(Context& context, const TemperedSoftmaxArgs& args) {
  dispatch_dtype(args.logits.dtype, [&](auto tag) { run<decltype(tag)>(context, args); });
}

}  // namespace ventris
