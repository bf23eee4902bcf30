// SPDX-License-Identifier: Apache-2.0
#include "backend/r_drop.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "backend/kernels_cpu.h"
#include "backend/op_checks.h"
#include "backend/simd_cpu.h"

namespace ventris {
namespace {

constexpr int64_t kRows = 8;      // rows of one piece of work
constexpr int64_t kBlock = 1024;  // columns summed in Master<T>; sums of blocks in f64

/// Of one pass, with x the logits, `other` those of the other pass, both less their maximum.
struct Sums {
  double exp = 0.0;         // sum of e^x
  double shifted = 0.0;     // sum of x
  double difference = 0.0;  // sum of e^x (x - other)
};

template <typename T>
void sum_rows(const T* x, const T* y, int64_t n, Master<T> x_max, Master<T> y_max, Sums& of_x, Sums& of_y) {
  using M = Master<T>;
  alignas(64) M x_exp[kBlock];
  alignas(64) M y_exp[kBlock];
  const auto add = [](const std::array<M, 2>& sums, double& first, double& second) {
    first += static_cast<double>(sums[0]);
    second += static_cast<double>(sums[1]);
  };
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t count = std::min(n - begin, kBlock);
    const auto one = [&](const T* row, M max, M* exp, Sums& of) {
      add(lane_sums<M>(count,
                       [&](int64_t i, M& first, M& second) {
                         second = load(row[begin + i]) - max;
                         first = exp[i] = exp_approx(second);
                       }),
          of.exp, of.shifted);
    };
    one(x, x_max, x_exp, of_x);
    one(y, y_max, y_exp, of_y);
    add(lane_sums<M>(count,
                     [&](int64_t i, M& first, M& second) {
                       const M difference = (load(x[begin + i]) - x_max) - (load(y[begin + i]) - y_max);
                       first = x_exp[i] * difference;
                       second = -y_exp[i] * difference;
                     }),
        of_x.difference, of_y.difference);
  }
}

/// With p = softmax(x) and r = softmax(y), d = log p - log r, K = KL(p || r) = sum p d, L = KL(r || p):
///   d/dx [KL(p || r) + KL(r || p)] = p (d - K) + p - r,  d/dy of the same = r (-d - L) + r - p.
/// So the gradients are, with the target distribution q of the cross-entropy,
///   d_x = scale ((p - q) / 2 + alpha / 4 (p (d - K + 1) - r)),
///   d_y = scale ((r - q) / 2 + alpha / 4 (r (1 - d - L) - p)).
template <typename T>
void run(Context& context, const RDropArgs& args) {
  using M = Master<T>;
  const CrossEntropyArgs& pass = args.pass;
  const int64_t tokens = *pass.tokens;
  const int64_t vocab = pass.vocab;
  const int64_t cols = pass.logits.cols;
  const double smoothing = static_cast<double>(pass.smoothing);
  const double all_rows_scale = static_cast<double>(*pass.gradient_scale);
  const double quarter = static_cast<double>(args.alpha) / 4.0;
  M* loss = pass.loss.as<M>();
  M* nll = pass.nll.as<M>();
  context.pool().for_ranges(pass.logits.rows, kRows, [&](int64_t first, int64_t last, int) {
    for (int64_t t = first; t < last; ++t) {
      T* x = pass.logits.row<T>(t);
      T* y = args.second.row<T>(t);
      if (pass.first_row + t >= tokens) {
        std::fill_n(x, cols, T{});
        std::fill_n(y, cols, T{});
        loss[t] = nll[t] = M{0};
        continue;
      }
      const int32_t label = pass.labels[t];
      VENTRIS_CHECK(label >= 0 && label < vocab, "labels[{}] is {}, the vocabulary holds {}", t, label,
                    vocab);
      const M x_max = row_max(x, vocab);
      const M y_max = row_max(y, vocab);
      Sums of_x, of_y;
      sum_rows(x, y, vocab, x_max, y_max, of_x, of_y);
      const double x_log_sum = portable_log(of_x.exp);
      const double y_log_sum = portable_log(of_y.exp);
      const double x_label = static_cast<double>(load(x[label]) - x_max) - x_log_sum;  // log p
      const double y_label = static_cast<double>(load(y[label]) - y_max) - y_log_sum;
      const double shift = x_log_sum - y_log_sum;  // of d, from differences of shifted logits
      const double x_kl = of_x.difference / of_x.exp - shift;
      const double y_kl = of_y.difference / of_y.exp + shift;

      const double weight = pass.weights == nullptr ? 1.0 : static_cast<double>(pass.weights[t]);
      const double row_nll = -(x_label + y_label) / 2.0;
      // -sum_w q(w) log p(w), as the q(w) sum to 1.
      const double mean_nll =
          (x_log_sum + y_log_sum - (of_x.shifted + of_y.shifted) / static_cast<double>(vocab)) / 2.0;
      nll[t] = static_cast<M>(weight * row_nll);
      loss[t] = static_cast<M>(
          weight * ((1.0 - smoothing) * row_nll + smoothing * mean_nll + quarter * (x_kl + y_kl)));

      const double scale = all_rows_scale * weight;
      const auto d_label = [&](double log_p, double log_r, double kl) {
        const double p = portable_exp(log_p);
        return scale * ((p - (1.0 - smoothing) - smoothing / static_cast<double>(vocab)) / 2.0 +
                        quarter * (p * (log_p - log_r - kl + 1.0) - portable_exp(log_r)));
      };
      const double x_at_label = d_label(x_label, y_label, x_kl);
      const double y_at_label = d_label(y_label, x_label, y_kl);
      const M x_normal = static_cast<M>(1.0 / of_x.exp);
      const M y_normal = static_cast<M>(1.0 / of_y.exp);
      const M half = static_cast<M>(scale / 2.0);
      const M part = static_cast<M>(scale * quarter);
      const M uniform = static_cast<M>(scale * smoothing / static_cast<double>(vocab) / 2.0);
      const M x_rest = static_cast<M>(1.0 - x_kl - shift);
      const M y_rest = static_cast<M>(1.0 - y_kl + shift);
#pragma omp simd
      for (int64_t i = 0; i < vocab; ++i) {
        const M x_shifted = load(x[i]) - x_max;
        const M y_shifted = load(y[i]) - y_max;
        const M difference = x_shifted - y_shifted;
        const M p = exp_approx(x_shifted) * x_normal;
        const M r = exp_approx(y_shifted) * y_normal;
        store(x[i], std::fma(half, p, std::fma(part, std::fma(p, x_rest + difference, -r), -uniform)));
        store(y[i], std::fma(half, r, std::fma(part, std::fma(r, y_rest - difference, -p), -uniform)));
      }
      store(x[label], static_cast<M>(x_at_label));
      store(y[label], static_cast<M>(y_at_label));
      std::fill(x + vocab, x + cols, T{});
      std::fill(y + vocab, y + cols, T{});
    }
  });
}

}  // namespace

void r_drop_cpu(Context& context, const RDropArgs& args) {
  dispatch_dtype(args.pass.logits.dtype, [&](auto tag) { run<decltype(tag)>(context, args); });
}

}  // namespace ventris
