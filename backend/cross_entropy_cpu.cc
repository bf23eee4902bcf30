// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <type_traits>

#include "backend/cross_entropy.h"
#include "backend/kernels_cpu.h"
#include "backend/op_checks.h"
#include "backend/simd_cpu.h"

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

/// The soft targets r of a row, and what the loss needs of its logits x at their tokens, which the gradient
/// overwrites.
template <typename T>
class SoftRow {
 public:
  using M = Master<T>;
  SoftRow(const SoftTargets& soft, int64_t t, const T* x, int64_t vocab, M max)
      : probabilities_(soft.probabilities.row<M>(t)),
        indices_(soft.indices == nullptr ? nullptr : soft.indices + t * soft.probabilities.cols),
        count_(soft.probabilities.cols) {
    if (indices_ == nullptr) {
      for (int64_t begin = 0; begin < vocab; begin += kBlock) {
        shifted_ += static_cast<double>(lane_sum<M>(std::min(vocab - begin, kBlock), [&](int64_t i) {
          return probabilities_[begin + i] * (load(x[begin + i]) - max);
        }));
      }
      return;
    }
    for (int64_t i = 0; i < count_; ++i) {
      const int32_t token = indices_[i];
      VENTRIS_CHECK(token >= 0 && token < vocab,
                    "soft target {} of row {} is token {}, the vocabulary holds {}", i, t, token, vocab);
      const M logit = logits_[static_cast<size_t>(i)] = load(x[token]);
      shifted_ += static_cast<double>(probabilities_[i]) * static_cast<double>(logit - max);
    }
  }

  /// The sum of r(w) (x(w) - max).
  double shifted() const { return shifted_; }
  /// r(w).
  double of(int32_t token) const {
    if (indices_ == nullptr) return static_cast<double>(probabilities_[token]);
    const int32_t* found = std::find(indices_, indices_ + count_, token);
    return found == indices_ + count_ ? 0.0 : static_cast<double>(probabilities_[found - indices_]);
  }
  /// Those of all tokens, or null.
  const M* dense() const { return indices_ == nullptr ? probabilities_ : nullptr; }
  /// Calls body(token, its logit, r(token)) for each that is listed.
  template <typename Body>
  void for_each(Body&& body) const {
    for (int64_t i = 0; indices_ != nullptr && i < count_; ++i)
      body(indices_[i], logits_[static_cast<size_t>(i)], probabilities_[i]);
  }

 private:
  const M* probabilities_;
  const int32_t* indices_;
  int64_t count_;
  std::array<M, kMostSoftTargets> logits_;
  double shifted_ = 0.0;
};

/// d_logits of a row but for its label: normal e^(x - max) - uniform, and with soft targets
/// + tempered e^((x - max) / T) - target r. Where T is 1, normal is that of both exponentials.
template <typename M>
struct RowGradient {
  M max, normal, uniform;
  M inverse, tempered, target;

  /// Without the target, of a logit, or of e^(x - max) where that was kept.
  template <bool kKept, bool kTempered>
  M of(M x) const {
    const M rest = kTempered ? std::fma(exp_approx((x - max) * inverse), tempered, -uniform) : -uniform;
    return std::fma(kKept ? x : exp_approx(x - max), normal, rest);
  }
};

/// x of `from`, the logits in x or e^(x - max) where that was kept.
template <bool kKept, bool kTempered, typename T, typename From>
void write_gradient(const From* from, T* x, int64_t vocab, const RowGradient<Master<T>>& d,
                    const Master<T>* dense) {
  static_assert(!(kKept && kTempered));
  if (dense != nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < vocab; ++i)
      store(x[i], std::fma(-dense[i], d.target, d.template of<kKept, kTempered>(load(from[i]))));
  } else {
#pragma omp simd
    for (int64_t i = 0; i < vocab; ++i) store(x[i], d.template of<kKept, kTempered>(load(from[i])));
  }
}

template <typename T, bool kSoft>
void run(Context& context, const CrossEntropyArgs& args) {
  using M = Master<T>;
  const int64_t tokens = *args.tokens;
  const int64_t vocab = args.vocab;
  const double smoothing = static_cast<double>(args.smoothing);
  const double all_rows_scale = args.gradient ? static_cast<double>(*args.gradient_scale) : 0.0;
  const double soft_weight = kSoft ? static_cast<double>(args.soft.weight) : 0.0;
  const double temperature = kSoft ? static_cast<double>(args.soft.temperature) : 1.0;
  const bool tempered = temperature != 1.0;
  const M inverse = static_cast<M>(1.0 / temperature);
  M* loss = args.loss.as<M>();
  M* nll = args.nll.as<M>();
  const bool keeps = args.gradient && !tempered;
  const int64_t room = keeps && !kHoldsExp<T> ? padded<M>(vocab) : 0;
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
      std::optional<SoftRow<T>> soft;
      if constexpr (kSoft) soft.emplace(args.soft, t, x, vocab, max);
      M* exps;
      if constexpr (kHoldsExp<T>) {
        exps = x;
      } else {
        exps = all_exps + thread * room;
      }
      const T* next = args.logits.row<T>(std::min(t + 1, args.logits.rows - 1));
      const RowSums sums =
          keeps ? sum_row<true>(x, vocab, max, exps, next) : sum_row<false>(x, vocab, max, exps, next);
      const double weight = args.weights == nullptr ? 1.0 : static_cast<double>(args.weights[t]);
      const double log_sum = portable_log(sums.exp);
      const double row_nll = log_sum - static_cast<double>(at_label);
      nll[t] = static_cast<M>(weight * row_nll);
      // -sum_w q(w) log p(w), as the q(w) sum to 1.
      const double mean_nll = log_sum - sums.shifted / static_cast<double>(vocab);
      double row_loss = (1.0 - smoothing) * row_nll + smoothing * mean_nll;
      double tempered_sum = sums.exp;
      if constexpr (kSoft) {
        if (tempered) tempered_sum = row_exp_sum(x, vocab, max, inverse);
        // -sum_w r(w) log s(w), as the r(w) sum to 1.
        const double soft_loss = portable_log(tempered_sum) - soft->shifted() / temperature;
        row_loss = (1.0 - soft_weight) * row_loss + soft_weight * temperature * temperature * soft_loss;
      }
      loss[t] = static_cast<M>(weight * row_loss);
      if (!args.gradient) continue;
      const double scale = all_rows_scale * weight;
      const double hard_scale = scale * (1.0 - soft_weight);
      const double soft_scale = scale * soft_weight * temperature;
      const RowGradient<M> d = {
          .max = max,
          .normal = static_cast<M>((tempered ? hard_scale : scale) / sums.exp),
          .uniform = static_cast<M>(hard_scale * smoothing / static_cast<double>(vocab)),
          .inverse = inverse,
          .tempered = tempered ? static_cast<M>(soft_scale / tempered_sum) : M{0},
          .target = static_cast<M>(soft_scale)};
      const M* dense = kSoft ? soft->dense() : nullptr;
      if (tempered) {
        write_gradient<false, kSoft>(x, x, vocab, d, dense);
      } else {
        write_gradient<true, false>(exps, x, vocab, d, dense);
      }
      const double p_label = portable_exp(-row_nll);
      double d_label = hard_scale * (p_label - (1.0 - smoothing) - smoothing / static_cast<double>(vocab));
      if constexpr (kSoft) {
        soft->for_each([&](int32_t token, M logit, M r) {
          const M without = tempered ? d.template of<false, true>(logit) : d.template of<false, false>(logit);
          store(x[token], std::fma(-r, d.target, without));
        });
        const double s_label = portable_exp(static_cast<double>(at_label) / temperature) / tempered_sum;
        d_label += soft_scale * (s_label - soft->of(label));
      }
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
  dispatch_dtype(args.logits.dtype, [&](auto tag) {
    using T = decltype(tag);
    if (args.soft) {
      run<T, true>(context, args);
    } else {
      run<T, false>(context, args);
    }
  });
}

void loss_sum_cpu(Context&, const LossSumArgs& args) {
  if (args.loss.dtype == DType::kF64) {
    sum_losses<double>(args);
  } else {
    sum_losses<float>(args);
  }
}

}  // namespace ventris
