// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "backend/context_cuda.h"
#include "backend/cuda/elements.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/kernels_cuda.h"
#include "backend/r_drop.h"

namespace ventris {
namespace {

using namespace cuda;

constexpr int kRDropThreads = 512;
constexpr int kRDropWarps = kRDropThreads / kWarp;

template <typename T>
struct RDropProblem {
  Rows<T> x, y;  // logits of p and r
  const int32_t* labels;
  const float* weights;  // null: all 1
  int64_t first_row;
  const int32_t* tokens;
  int vocab;
  int cols;
  int packs;  // of a row's first `vocab` columns, if packs are aligned; the columns after them are "loose"
  float smoothing;
  float quarter;  // of alpha
  const float* gradient_scale;
  float* loss;
  float* nll;
};

/// Of a part of a row, in powers of two: the sum of 2^(kLog2E x - max) is that of e^x over 2^max.
struct RDropPart {
  float max;
  float sum;
  float plain;       // sum of x
  float difference;  // sum of 2^(kLog2E x - max) (x - logit of the other pass)
};
constexpr float kRDropLowest = -3e38F;  // finite, so that differences of two `max` are numbers

template <int kCount>
__device__ __forceinline__ void add_r_drop_part(const float (&x)[kCount], const float (&other)[kCount],
                                                RDropPart& part) {
  float max = x[0];
  for (int i = 1; i < kCount; ++i) max = fmaxf(max, x[i]);
  max = fmaxf(part.max, kLog2E * max);
  const float factor = fast_exp2(part.max - max);
  part.sum *= factor;
  part.difference *= factor;
  part.max = max;
  for (int i = 0; i < kCount; ++i) {
    const float exp = fast_exp2(fmaf(kLog2E, x[i], -max));
    part.sum += exp;
    part.plain += x[i];
    part.difference = fmaf(exp, x[i] - other[i], part.difference);
  }
}
/// The whole of the lanes' parts, as a fixed tree; every lane gets it.
__device__ __forceinline__ RDropPart r_drop_warp_total(const RDropPart& part) {
  const float max = warp_max(part.max);
  const float factor = fast_exp2(part.max - max);
  return {max, warp_sum(part.sum * factor), warp_sum(part.plain), warp_sum(part.difference * factor)};
}

/// Of one pass: p = normal * 2^(kLog2E x - max), and d_x = half p + part (p (rest + x - y) - r) - uniform,
/// with the smoothed label taken off.
struct RDropGradient {
  float max, normal, rest;
};
struct RowGradient {
  RDropGradient x, y;
  float half, part, uniform, at_label;
};

/// One block: one row of both passes; only it writes the row's gradients, loss and nll. A thread has every
/// kRDropThreads-th pack and loose column in both sweeps. A label outside of the vocabulary gives a loss of
/// NaN. r_drop_cpu.cc has the derivative. Grid: rows; block: kRDropThreads.
template <typename T>
__global__ void __launch_bounds__(kRDropThreads, 2) r_drop_row(RDropProblem<T> f) {
  __shared__ RDropPart parts[2][kRDropWarps];
  __shared__ RowGradient shared;
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kWarp;
  const int64_t t = blockIdx.x;
  T* const x_row = f.x.row(t);
  T* const y_row = f.y.row(t);
  auto* x_packs = reinterpret_cast<Packed<T>*>(x_row);
  auto* y_packs = reinterpret_cast<Packed<T>*>(y_row);
  const int loose = f.packs * kPack + thread;
  if (f.first_row + t >= *f.tokens) {
    for (int p = thread; p < f.packs; p += kRDropThreads) x_packs[p] = y_packs[p] = {};
    for (int c = loose; c < f.cols; c += kRDropThreads) {
      store(x_row[c], 0.0F);
      store(y_row[c], 0.0F);
    }
    if (thread == 0) f.loss[t] = f.nll[t] = 0.0F;
    return;
  }
  const int label = f.labels[t];
  const bool known = label >= 0 && label < f.vocab;
  const float x_at_label = known && thread == 0 ? load(x_row[label]) : nanf("");
  const float y_at_label = known && thread == 0 ? load(y_row[label]) : nanf("");
  RDropPart x_part = {kRDropLowest, 0.0F, 0.0F, 0.0F};
  RDropPart y_part = x_part;
  for (int p = thread; p < f.packs; p += kRDropThreads) {
    float x[kPack];
    float y[kPack];
    unpack(x_packs[p], x);
    unpack(y_packs[p], y);
    add_r_drop_part(x, y, x_part);
    add_r_drop_part(y, x, y_part);
  }
  for (int c = loose; c < f.vocab; c += kRDropThreads) {
    const float x[1] = {load(x_row[c])};
    const float y[1] = {load(y_row[c])};
    add_r_drop_part(x, y, x_part);
    add_r_drop_part(y, x, y_part);
  }
  x_part = r_drop_warp_total(x_part);
  y_part = r_drop_warp_total(y_part);
  if (lane == 0) {
    parts[0][thread / kWarp] = x_part;
    parts[1][thread / kWarp] = y_part;
  }
  sync_threads();
  if (thread < kWarp) {
    const RDropPart none = {kRDropLowest, 0.0F, 0.0F, 0.0F};
    x_part = r_drop_warp_total(lane < kRDropWarps ? parts[0][lane] : none);
    y_part = r_drop_warp_total(lane < kRDropWarps ? parts[1][lane] : none);
    if (lane == 0) {
      const float vocab = static_cast<float>(f.vocab);
      const float x_log2 = log2f(x_part.sum) + x_part.max;  // of the sum of e^x
      const float y_log2 = log2f(y_part.sum) + y_part.max;
      const float x_log = kLn2 * x_log2;
      const float y_log = kLn2 * y_log2;
      // Not x_log - y_log, which nvcc fuses with one of the products: equal passes then differ by its
      // rounding.
      const float shift = kLn2 * (x_log2 - y_log2);
      const float x_kl = x_part.difference / x_part.sum - shift;
      const float y_kl = y_part.difference / y_part.sum + shift;
      const float nll = 0.5F * ((x_log - x_at_label) + (y_log - y_at_label));
      const float mean_nll = 0.5F * ((x_log - x_part.plain / vocab) + (y_log - y_part.plain / vocab));
      const float weight = f.weights == nullptr ? 1.0F : f.weights[t];
      f.nll[t] = weight * nll;
      f.loss[t] = weight * ((1.0F - f.smoothing) * nll + f.smoothing * mean_nll + f.quarter * (x_kl + y_kl));
      const float scale = weight * *f.gradient_scale;
      shared = {.x = {x_part.max, 1.0F / x_part.sum, 1.0F - x_kl - shift},
                .y = {y_part.max, 1.0F / y_part.sum, 1.0F - y_kl + shift},
                .half = 0.5F * scale,
                .part = f.quarter * scale,
                .uniform = 0.5F * scale * f.smoothing / vocab,
                .at_label = 0.5F * scale * (1.0F - f.smoothing)};
    }
  }
  sync_threads();  // also between the reads of the label's logits and the writes below
  const RowGradient g = shared;
  const auto gradients = [&g, label](int column, float& x, float& y) {
    const float difference = x - y;
    const float p = g.x.normal * fast_exp2(fmaf(kLog2E, x, -g.x.max));
    const float r = g.y.normal * fast_exp2(fmaf(kLog2E, y, -g.y.max));
    const float uniform = g.uniform + (column == label ? g.at_label : 0.0F);
    x = fmaf(g.half, p, fmaf(g.part, fmaf(p, g.x.rest + difference, -r), -uniform));
    y = fmaf(g.half, r, fmaf(g.part, fmaf(r, g.y.rest - difference, -p), -uniform));
  };
  for (int p = thread; p < f.packs; p += kRDropThreads) {
    float x[kPack];
    float y[kPack];
    unpack(x_packs[p], x);
    unpack(y_packs[p], y);
    for (int i = 0; i < kPack; ++i) gradients(p * kPack + i, x[i], y[i]);
    x_packs[p] = pack<T>(x);
    y_packs[p] = pack<T>(y);
  }
  for (int c = loose; c < f.cols; c += kRDropThreads) {
    float x = 0.0F;
    float y = 0.0F;
    if (c < f.vocab) {
      x = load(x_row[c]);
      y = load(y_row[c]);
      gradients(c, x, y);
    }
    store(x_row[c], x);
    store(y_row[c], y);
  }
}

}  // namespace

void r_drop_cuda(Context& context, const RDropArgs& args) {
  const CrossEntropyArgs& pass = args.pass;
  dispatch_device_dtype(pass.logits.dtype, "r_drop", [&](auto tag) {
    using T = decltype(tag);
    const int64_t packs = all_vectors_fit(pass.logits, args.second) ? pass.vocab / kPack : 0;
    const RDropProblem<T> f{.x = rows_of<T>(pass.logits),
                            .y = rows_of<T>(args.second),
                            .labels = pass.labels,
                            .weights = pass.weights,
                            .first_row = pass.first_row,
                            .tokens = pass.tokens,
                            .vocab = static_cast<int>(pass.vocab),
                            .cols = static_cast<int>(pass.logits.cols),
                            .packs = static_cast<int>(packs),
                            .smoothing = pass.smoothing,
                            .quarter = 0.25F * args.alpha,
                            .gradient_scale = pass.gradient_scale,
                            .loss = pass.loss.as<float>(),
                            .nll = pass.nll.as<float>()};
    launch({.name = "r_drop_row", .grid = static_cast<unsigned>(pass.logits.rows), .block = kRDropThreads},
           stream_of(context), r_drop_row<T>, f);
  });
}

}  // namespace ventris
