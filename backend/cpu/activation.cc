// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/activation.h"
#include "backend/cpu/simd.h"

namespace ventris {
namespace {

constexpr int64_t kRows = 16;  // rows of one piece of work

/// The distribution N(0, 1) at x.
template <typename M>
struct Normal {
  M density;
  M cumulative;
};

/// Cumulative within 2e-7, and within 4e-7 of its value down to x = -13. With z = |x|: 1 - Phi(z) = e^(-z^2 /
/// 2) R(z), where R is within 2e-8 of its value a polynomial in t = 1 / (1 + 5/16 z), fitted for z up
/// to 13.3.
inline Normal<float> normal(float x) {
  constexpr float kEnd = 14.0F;  // e^(-z^2 / 2) is 0
  const float magnitude = std::fabs(x);
  const float z = magnitude > kEnd ? kEnd : magnitude;
  const float square = z * z;
  const float lost = std::fma(z, z, -square);
  const float power = exp_of_limited(-0.5F * square);
  const float exponential = std::fma(power, -0.5F * lost, power);
  const float t = 1.0F / std::fma(z, 0.3125F, 1.0F);
  float p = -0.018479608F;
  p = std::fma(p, t, 0.0884461775F);
  p = std::fma(p, t, -0.144006625F);
  p = std::fma(p, t, 0.0647720918F);
  p = std::fma(p, t, 0.00543275755F);
  p = std::fma(p, t, 0.0512367636F);
  p = std::fma(p, t, 0.0915829763F);
  p = std::fma(p, t, 0.111563295F);
  p = std::fma(p, t, 0.124788769F);
  p = std::fma(p, t, 0.124663398F);
  const float tail = exponential * (p * t);
  return {exponential * 0.398942280F, x < 0.0F ? tail : 1.0F - tail};
}

/// Within 1e-14: Phi(x) = 1/2 + phi(x) (x + x^3 / 3 + x^5 / (3 5) + ...), whose terms have one sign.
inline Normal<double> normal(double x) {
  constexpr double kEnd = 9.0;  // from here on Phi is 0 or 1
  constexpr int kTerms = 160;
  const double density = portable_exp(-0.5 * x * x) * 0.398942280401432678;
  if (x > kEnd || x < -kEnd) return {density, x > 0.0 ? 1.0 : 0.0};
  double term = x;
  double sum = x;
  for (int n = 1; n < kTerms; ++n) {
    term *= x * x / (2 * n + 1);
    sum += term;
  }
  return {density, std::fma(density, sum, 0.5)};
}

struct Gelu {
  template <typename M>
  static M value(M x) {
    return x * normal(x).cumulative;
  }
  template <typename M>
  static M slope(M x) {
    const Normal<M> at = normal(x);
    return std::fma(x, at.density, at.cumulative);
  }
};

struct Swish {
  template <typename M>
  static M value(M x) {
    return x * sigmoid(x);
  }
  template <typename M>
  static M slope(M x) {
    const M s = sigmoid(x);
    return s * std::fma(x, M{1} - s, M{1});
  }

 private:
  template <typename M>
  static M sigmoid(M x) {
    return M{1} / (M{1} + exp_approx(-x));
  }
};

template <typename F, typename T>
void forward(Context& context, const ActivationForwardArgs& args) {
  const int64_t cols = args.y.cols;
  context.pool().for_ranges(args.y.rows, kRows, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const T* x = args.x.row<T>(row);
      T* y = args.y.row<T>(row);
#pragma omp simd
      for (int64_t i = 0; i < cols; ++i) {
        const Master<T> value = load(x[i]);
        store(y[i], F::value(value));
      }
    }
  });
}

template <typename F, typename T>
void backward(Context& context, const ActivationBackwardArgs& args) {
  const int64_t cols = args.d_y.cols;
  context.pool().for_ranges(args.d_y.rows, kRows, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const T* __restrict x = args.x.row<T>(row);
      T* __restrict gradient = args.d_y.row<T>(row);
#pragma omp simd
      for (int64_t i = 0; i < cols; ++i) {
        const Master<T> value = load(x[i]);
        store(gradient[i], load(gradient[i]) * F::slope(value));
      }
    }
  });
}

}  // namespace

void activation_forward_cpu(Context& context, const ActivationForwardArgs& args) {
  dispatch_dtype(args.y.dtype, [&](auto tag) {
    using T = decltype(tag);
    args.activation == Activation::kGelu ? forward<Gelu, T>(context, args) : forward<Swish, T>(context, args);
  });
}

void activation_backward_cpu(Context& context, const ActivationBackwardArgs& args) {
  dispatch_dtype(args.d_y.dtype, [&](auto tag) {
    using T = decltype(tag);
    args.activation == Activation::kGelu ? backward<Gelu, T>(context, args)
                                         : backward<Swish, T>(context, args);
  });
}

}  // namespace ventris
