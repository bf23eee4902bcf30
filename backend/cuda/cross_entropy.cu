// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "backend/cuda/elements.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/mma.cuh"
#include "backend/cuda/resident_blocks.h"
#include "backend/device/context_cuda.h"
#include "backend/ops/cross_entropy.h"

namespace ventris {
namespace {

using namespace cuda;

constexpr int kCrossEntropyThreads = 512;
constexpr int kCrossEntropyWarps = kCrossEntropyThreads / kWarp;
/// Blocks of a multiprocessor that registers have room for: as many rows of 37,000 bf16 as fit in the shared
/// memory of compute capability 9.0.
[[maybe_unused]] constexpr int kResidentBlocks = 3;

template <typename T>
struct CrossEntropyProblem {
  Rows<T> logits;
  const int32_t* labels;
  const float* weights;  // with kWeighted
  int64_t first_row;
  const int32_t* tokens;
  int vocab;
  int cols;
  int packs;  // of a row's first `vocab` columns, if packs are aligned; the columns after them are "loose"
  float smoothing;
  const float* gradient_scale;  // null: no gradient
  float* loss;
  float* nll;
};

/// Of a part of a row, in powers of two: 2^(kLog2E x - max) summed is the sum of e^x over 2^max.
struct CrossEntropyPart {
  float max;
  float sum;
  float plain;  // sum of x
};
constexpr float kCrossEntropyLowest = -3e38F;  // finite, so that differences of two `max` are numbers

template <int kCount>
__device__ __forceinline__ void add_cross_entropy_part(const float (&x)[kCount], CrossEntropyPart& part) {
  float max = x[0];
  for (int i = 1; i < kCount; ++i) max = fmaxf(max, x[i]);
  max = fmaxf(part.max, kLog2E * max);
  part.sum *= fast_exp2(part.max - max);
  part.max = max;
  for (int i = 0; i < kCount; ++i) {
    part.sum += fast_exp2(fmaf(kLog2E, x[i], -max));
    part.plain += x[i];
  }
}

/// d_logits = normal * 2^(kLog2E x - max) - uniform, but d_label at the label.
struct CrossEntropyGradient {
  float max, normal, uniform, d_label;
};

/// The whole of the lanes' parts, as a fixed tree; every lane gets it.
__device__ __forceinline__ CrossEntropyPart cross_entropy_warp_total(const CrossEntropyPart& part) {
  const float max = warp_max(part.max);
  return {max, warp_sum(part.sum * fast_exp2(part.max - max)), warp_sum(part.plain)};
}

/// One block: one row; only it writes the row's gradient, loss and nll. A thread has every
/// kCrossEntropyThreads-th pack and loose column in both passes. With kKept the packs are copied to shared
/// memory once (f.packs of them), otherwise they are read again: the bits are the same. Without kWeighted all
/// weights are 1. A label outside of the vocabulary gives a loss of NaN.
/// Grid: rows; block: kCrossEntropyThreads.
template <typename T, bool kKept, bool kWeighted>
__global__ void __launch_bounds__(kCrossEntropyThreads, kKept ? kResidentBlocks : 2)
    cross_entropy_row(CrossEntropyProblem<T> f) {
  __shared__ CrossEntropyPart parts[kCrossEntropyWarps];
  __shared__ CrossEntropyGradient shared;
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kWarp;
  const int64_t t = blockIdx.x;
  T* row = f.logits.row(t);
  auto* packs = reinterpret_cast<Packed<T>*>(row);
  const int loose = f.packs * kPack + thread;
  const bool gradient = f.gradient_scale != nullptr;
  if (f.first_row + t >= *f.tokens) {
    for (int p = thread; gradient && p < f.packs; p += kCrossEntropyThreads) packs[p] = {};
    for (int c = loose; gradient && c < f.cols; c += kCrossEntropyThreads) store(row[c], 0.0F);
    if (thread == 0) f.loss[t] = f.nll[t] = 0.0F;
    return;
  }
  const Packed<T>* read = packs;
  if constexpr (kKept) {
    auto* kept = dynamic_shared<Packed<T>>();
    for (int p = thread; p < f.packs; p += kCrossEntropyThreads) {
      for (size_t i = 0; i < sizeof(Packed<T>); i += 16) {
        async_copy_16(reinterpret_cast<char*>(kept + p) + i, reinterpret_cast<const char*>(packs + p) + i);
      }
    }
    async_commit();
    read = kept;
  }
  const int label = f.labels[t];
  const bool known = label >= 0 && label < f.vocab;
  const float at_label = known && thread == 0 ? load(row[label]) : nanf("");
  if constexpr (kKept) async_wait<0>();  // for the thread's own packs
  const CrossEntropyPart none = {kCrossEntropyLowest, 0.0F, 0.0F};
  CrossEntropyPart part = none;
  for (int p = thread; p < f.packs; p += kCrossEntropyThreads) {
    float x[kPack];
    unpack(read[p], x);
    add_cross_entropy_part(x, part);
  }
  for (int c = loose; c < f.vocab; c += kCrossEntropyThreads) add_cross_entropy_part({load(row[c])}, part);
  part = cross_entropy_warp_total(part);
  if (lane == 0) parts[thread / kWarp] = part;
  sync_threads();
  if (thread < kWarp) {
    part = none;
    if (lane < kCrossEntropyWarps) part = parts[lane];
    part = cross_entropy_warp_total(part);
    if (lane == 0) {
      const float vocab = static_cast<float>(f.vocab);
      const float log2_sum = log2f(part.sum);
      const float exponent = fmaf(kLog2E, at_label, -part.max);  // of the label's term of the sum
      const float nll = kLn2 * (log2_sum - exponent);
      const float weight = kWeighted ? f.weights[t] : 1.0F;
      f.nll[t] = weight * nll;
      // -sum_w q(w) log p(w), as the q(w) sum to 1
      const float loss =
          (1.0F - f.smoothing) * nll + f.smoothing * (kLn2 * (log2_sum + part.max) - part.plain / vocab);
      const float scale = gradient ? weight * *f.gradient_scale : 0.0F;
      f.loss[t] = weight * loss;
      const float uniform = f.smoothing / vocab;
      shared.max = part.max;
      shared.normal = scale / part.sum;
      shared.uniform = scale * uniform;
      shared.d_label = scale * (fast_exp2(exponent) / part.sum - (1.0F - f.smoothing) - uniform);
    }
  }
  if (!gradient) return;
  sync_threads();  // also between the read of the label's logit and the writes below
  const CrossEntropyGradient g = shared;
  const auto d_logit = [&](float x) {
    return fmaf(g.normal, fast_exp2(fmaf(kLog2E, x, -g.max)), -g.uniform);
  };
  for (int p = thread; p < f.packs; p += kCrossEntropyThreads) {
    float x[kPack];
    unpack(read[p], x);
    for (int i = 0; i < kPack; ++i) x[i] = d_logit(x[i]);
    packs[p] = pack<T>(x);
  }
  for (int c = loose; c < f.cols; c += kCrossEntropyThreads)
    store(row[c], c < f.vocab ? d_logit(load(row[c])) : 0.0F);
  const int place = label - f.packs * kPack;
  const int owner = (place < 0 ? label / kPack : place) % kCrossEntropyThreads;
  if (known && thread == owner) store(row[label], g.d_label);
}

constexpr int kSumThreads = 1024;

/// One block in total: totals += the sums of both, over a fixed tree in f64.
__global__ void __launch_bounds__(kSumThreads)
    sum_losses(const float* loss, const float* nll, int64_t n, double* totals) {
  __shared__ double room[kSumThreads / kWarp];
  double sums[2] = {};
  for (int64_t i = threadIdx.x; i < n; i += kSumThreads) {
    sums[0] += static_cast<double>(loss[i]);
    sums[1] += static_cast<double>(nll[i]);
  }
  for (double& sum : sums) sum = block_sum(sum, room);
  if (threadIdx.x < 2) totals[threadIdx.x] += sums[threadIdx.x];
}

}  // namespace

void cross_entropy_cuda(Context& context, const CrossEntropyArgs& args) {
  dispatch_device_dtype(args.logits.dtype, "cross_entropy", [&](auto tag) {
    using T = decltype(tag);
    const int64_t packs = vectors_fit(args.logits) ? args.vocab / kPack : 0;
    const CrossEntropyProblem<T> f{.logits = rows_of<T>(args.logits),
                                   .labels = args.labels,
                                   .weights = args.weights,
                                   .first_row = args.first_row,
                                   .tokens = args.tokens,
                                   .vocab = static_cast<int>(args.vocab),
                                   .cols = static_cast<int>(args.logits.cols),
                                   .packs = static_cast<int>(packs),
                                   .smoothing = args.smoothing,
                                   .gradient_scale = args.gradient ? args.gradient_scale : nullptr,
                                   .loss = args.loss.as<float>(),
                                   .nll = args.nll.as<float>()};
    static_assert(sizeof(CrossEntropyPart) * kCrossEntropyWarps + sizeof(CrossEntropyGradient) <=
                  kDeclaredSharedBytes / 2);
    const size_t row_bytes = static_cast<size_t>(packs) * sizeof(Packed<T>);
    const bool kept = args.gradient && !keeps_less(context.cuda().shared_bytes, row_bytes, 0);
    dispatch_flag(kept, [&](auto flag) {
      dispatch_flag(args.weights != nullptr, [&](auto weighted) {
        launch({.name = "cross_entropy_row",
                .grid = static_cast<unsigned>(args.logits.rows),
                .block = kCrossEntropyThreads,
                .shared_bytes = kept ? row_bytes : 0},
               stream_of(context), cross_entropy_row<T, decltype(flag)::value, decltype(weighted)::value>, f);
      });
    });
  });
}

void loss_sum_cuda(Context& context, const LossSumArgs& args) {
  launch({.name = "sum_losses", .grid = 1, .block = kSumThreads}, stream_of(context), sum_losses,
         args.loss.as<float>(), args.nll.as<float>(), args.loss.cols, args.totals);
}

}  // namespace ventris
