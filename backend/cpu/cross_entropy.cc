// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "backend/cpu/simd.h"
#include "backend/ops/cross_entropy.h"
#include "backend/ops/op_checks.h"

namespace ventris {
namespace {

constexpr int64_t kRows = 8;      // rows of one piece of work
constexpr int64_t kBlock = 1024;  // columns summed in Master<T>; sums of blocks in f64

/// bf16 cannot hold e^x accurately enough: the gradient needs a row of its own for them.
template <typename T>
constexpr bool kHoldsExp = !std::is_same_v<T, BF16>;

struct RowSums {
  double exp = 0.0;      // sum of e^(x - max)
  double shifted = 0.0;  // sum of x - max
};

/// With kStore, exps, which may be x, becomes e^(x - max). Fetches `next`, of n elements, into the L2 cache:
/// exponentials leave the memory idle.
template <bool kStore, typename T>
RowSums sum_row(const T* x, int64_t n, Master<T> max, Master<T>* exps, const T* next) {
  using M = Master<T>;
  RowSums sums;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const T* const block = x + begin;
    M* const stored = exps + begin;
    const T* const ahead = next + begin;
    const auto [exp_sum, shifted_sum] = lane_sums<M>(
        std::min(n - begin, kBlock),
        [&](int64_t i, M& first, M& second) {
          const M shifted = load(block[i]) - max;
          const M e = exp_of_limited(shifted);
          if constexpr (kStore) stored[i] = e;
          first = e;
          second = shifted;
        },
        [&](int64_t i) __attribute__((always_inline)) {
#pragma GCC unroll 4
          for (int64_t j = 0; j < kSumLanes; j += 64 / static_cast<int64_t>(sizeof(T)))
            __builtin_prefetch(ahead + i + j, 0, 2);
        });
    sums.exp += static_cast<double>(exp_sum);
    sums.shifted += static_cast<double>(shifted_sum);
  }
  return sums;
}

template <typename T>
void run(Context& context, const CrossEntropyArgs& args) {
  using M = Master<T>;
  const int64_t tokens = *args.tokens;
  const int64_t vocab = args.vocab;
  const double smoothing = static_cast<double>(args.smoothing);
  const double all_rows_scale = args.gradient ? static_cast<double>(*args.gradient_scale) : 0.0;
  M* loss = args.loss.as<M>();
  M* nll = args.nll.as<M>();
  const int64_t room = args.gradient && !kHoldsExp<T> ? padded<M>(vocab) : 0;
  const int threads = context.pool().threads();
  need_scratch(context, static_cast<size_t>(threads * room) * sizeof(M));
  ArenaScope scope(context.scratch());
  M* all_exps = context.scratch().allocate_array<M>(threads * room);
  context.pool().for_ranges(args.logits.rows, kRows, [&](int64_t first, int64_t last, int thread) {
    for (int64_t t = first; t < last; ++t) {
      T* x = args.logits.row<T>(t);
      if (args.first_row + t >= tokens) {
        if (args.gradient) std::fill_n(x, args.logits.cols, T{});
        loss[t] = nll[t] = M{0};
        continue;
      }
      const int32_t label = args.labels[t];
      VENTRIS_CHECK(label >= 0 && label < vocab, "labels[{}] is {}, the vocabulary holds {}", t, label,
                    vocab);
      const M max = row_max(x, vocab);
      const M at_label = load(x[label]) - max;
      M* exps;
      if constexpr (kHoldsExp<T>) {
        exps = x;
      } else {
        exps = all_exps + thread * room;
      }
      const T* next = args.logits.row<T>(std::min(t + 1, args.logits.rows - 1));
      const RowSums sums = args.gradient ? sum_row<true>(x, vocab, max, exps, next)
                                         : sum_row<false>(x, vocab, max, exps, next);
      const double weight = args.weights == nullptr ? 1.0 : static_cast<double>(args.weights[t]);
      const double log_sum = portable_log(sums.exp);
      const double row_nll = log_sum - static_cast<double>(at_label);
      nll[t] = static_cast<M>(weight * row_nll);
      // -sum_w q(w) log p(w), as the q(w) sum to 1.
      const double mean_nll = log_sum - sums.shifted / static_cast<double>(vocab);
      const double row_loss = (1.0 - smoothing) * row_nll + smoothing * mean_nll;
      loss[t] = static_cast<M>(weight * row_loss);
      if (!args.gradient) continue;
      const double scale = all_rows_scale * weight;
      const M normal = static_cast<M>(scale / sums.exp);
      const M uniform = static_cast<M>(scale * smoothing / static_cast<double>(vocab));
#pragma omp simd
      for (int64_t i = 0; i < vocab; ++i) store(x[i], std::fma(load(exps[i]), normal, -uniform));
      const double d_label =
          scale * (portable_exp(-row_nll) - (1.0 - smoothing) - smoothing / static_cast<double>(vocab));
      store(x[label], static_cast<M>(d_label));
      std::fill(x + vocab, x + args.logits.cols, T{});
    }
  });
}

template <typename M>
void sum_losses(const LossSumArgs& args) {
  const M* loss = args.loss.as<M>();
  const M* nll = args.nll.as<M>();
  for (int64_t t = 0; t < args.loss.cols; ++t) {
    args.totals[0] += static_cast<double>(loss[t]);
    args.totals[1] += static_cast<double>(nll[t]);
  }
}

}  // namespace

void cross_entropy_cpu(Context& context, const CrossEntropyArgs& args) {
  dispatch_dtype(args.logits.dtype, [&](auto tag) { run<decltype(tag)>(context, args); });
}

void loss_sum_cpu(Context&, const LossSumArgs& args) {
  if (args.loss.dtype == DType::kF64) {
    sum_losses<double>(args);
  } else {
    sum_losses<float>(args);
  }
}

}  // namespace ventris
