// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "backend/context_cuda.h"
#include "backend/cross_entropy.h"
#include "backend/cuda/elements.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/mma.cuh"
#include "backend/kernels_cuda.h"
#include "backend/resident_blocks.h"

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

/// A row without soft targets.
struct NoTargets {
  using RowPart = CrossEntropyPart;
  using RowGradient = CrossEntropyGradient;
  static constexpr bool kAny = false, kDense = false;
};

/// The soft targets r of rows: of all tokens, or of `count` at most kCrossEntropyThreads that are listed.
template <bool kOfAll>
struct Targets {
  struct RowPart : CrossEntropyPart {
    float tempered;  // 2^((kLog2E x - max) / temperature) summed
    float expected;  // sum of r x
  };
  /// And + tempered * 2^((kLog2E x - max) / temperature) - target * r, also at the label.
  struct RowGradient : CrossEntropyGradient {
    float tempered, target;
  };
  static constexpr bool kAny = true, kDense = kOfAll;

  Rows<const float> probabilities;
  const int32_t* indices;
  int count;
  float weight, temperature;
  float inverse;  // 1 / temperature
  bool vectors;   // whether packs of probabilities can be moved as vectors

  /// Those of the pack, of a row with all.
  __device__ __forceinline__ void load_pack(const float* row, int pack, float (&r)[kPack]) const {
    if (vectors) return unpack(reinterpret_cast<const Packed<float>*>(row)[pack], r);
    for (int i = 0; i < kPack; ++i) r[i] = row[pack * kPack + i];
  }
};
static_assert(kMostSoftTargets <= kCrossEntropyThreads);

/// Also adds, of dense targets, those at r.
template <typename Soft, int kCount>
__device__ __forceinline__ void add_cross_entropy_part(const float (&x)[kCount], const float* r,
                                                       const Soft& soft, typename Soft::RowPart& part) {
  const float before = part.max;
  add_cross_entropy_part(x, static_cast<CrossEntropyPart&>(part));
  if constexpr (Soft::kAny) {
    part.tempered *= fast_exp2(soft.inverse * (before - part.max));
    for (int i = 0; i < kCount; ++i) {
      part.tempered += fast_exp2(soft.inverse * fmaf(kLog2E, x[i], -part.max));
      if constexpr (Soft::kDense) part.expected = fmaf(r[i], x[i], part.expected);
    }
  }
}

/// The whole of the lanes' parts, as a fixed tree; every lane gets it.
template <typename Soft>
__device__ __forceinline__ typename Soft::RowPart cross_entropy_warp_total(const typename Soft::RowPart& part,
                                                                           const Soft& soft) {
  const float max = warp_max(part.max);
  typename Soft::RowPart total;
  total.max = max;
  total.sum = warp_sum(part.sum * fast_exp2(part.max - max));
  total.plain = warp_sum(part.plain);
  if constexpr (Soft::kAny) {
    total.tempered = warp_sum(part.tempered * fast_exp2(soft.inverse * (part.max - max)));
    total.expected = warp_sum(part.expected);
  }
  return total;
}

/// One block: one row; only it writes the row's gradient, loss and nll. A thread has every
/// kCrossEntropyThreads-th pack and loose column in both passes, and one of the listed targets. With kKept
/// the packs are copied to shared memory once (f.packs of them), otherwise they are read again: the bits are
/// the same. Without kWeighted all weights are 1, but with soft targets, where f.weights says it. A label or
/// target outside of the vocabulary gives a loss of NaN.
template <typename T, bool kKept, bool kWeighted, typename Soft>
__device__ __forceinline__ void loss_of_row(const CrossEntropyProblem<T>& f, const Soft& soft) {
  using RowPart = typename Soft::RowPart;
  __shared__ RowPart parts[kCrossEntropyWarps];
  __shared__ typename Soft::RowGradient shared;
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
  const float* targets = nullptr;  // of the row
  int token = -1;                  // that of this thread, with its logit
  float at_token = 0.0F;
  if constexpr (Soft::kAny) targets = soft.probabilities.row(t);
  if constexpr (Soft::kAny && !Soft::kDense) {
    if (thread < soft.count) {
      token = soft.indices[t * soft.count + thread];
      at_token = token >= 0 && token < f.vocab ? load(row[token]) : nanf("");
    }
  }
  if constexpr (kKept) async_wait<0>();  // for the thread's own packs
  RowPart none = {};
  none.max = kCrossEntropyLowest;
  RowPart part = none;
  for (int p = thread; p < f.packs; p += kCrossEntropyThreads) {
    float x[kPack], r[kPack] = {};
    unpack(read[p], x);
    if constexpr (Soft::kDense) soft.load_pack(targets, p, r);
    add_cross_entropy_part(x, r, soft, part);
  }
  for (int c = loose; c < f.vocab; c += kCrossEntropyThreads)
    add_cross_entropy_part({load(row[c])}, Soft::kDense ? targets + c : nullptr, soft, part);
  if constexpr (Soft::kAny && !Soft::kDense) {
    if (thread < soft.count) part.expected = targets[thread] * at_token;
  }
  part = cross_entropy_warp_total(part, soft);
  if (lane == 0) parts[thread / kWarp] = part;
  sync_threads();
  if (thread < kWarp) {
    part = none;
    if (lane < kCrossEntropyWarps) part = parts[lane];
    part = cross_entropy_warp_total(part, soft);
    if (lane == 0) {
      const float vocab = static_cast<float>(f.vocab);
      const float log2_sum = log2f(part.sum);
      const float exponent = fmaf(kLog2E, at_label, -part.max);  // of the label's term of the sum
      const float nll = kLn2 * (log2_sum - exponent);
      const bool weighted = Soft::kAny ? f.weights != nullptr : kWeighted;
      const float weight = weighted ? f.weights[t] : 1.0F;
      f.nll[t] = weight * nll;
      // -sum_w q(w) log p(w), as the q(w) sum to 1
      float loss =
          (1.0F - f.smoothing) * nll + f.smoothing * (kLn2 * (log2_sum + part.max) - part.plain / vocab);
      float scale = gradient ? weight * *f.gradient_scale : 0.0F;
      if constexpr (Soft::kAny) {
        // -sum_w r(w) log s(w), as the r(w) sum to 1
        const float soft_loss =
            kLn2 * (log2f(part.tempered) + soft.inverse * part.max) - soft.inverse * part.expected;
        loss = (1.0F - soft.weight) * loss + soft.weight * soft.temperature * soft.temperature * soft_loss;
        shared.target = scale * soft.weight * soft.temperature;
        shared.tempered = shared.target / part.tempered;
        scale *= 1.0F - soft.weight;
      }
      f.loss[t] = weight * loss;
      const float uniform = f.smoothing / vocab;
      shared.max = part.max;
      shared.normal = scale / part.sum;
      shared.uniform = scale * uniform;
      shared.d_label = scale * (fast_exp2(exponent) / part.sum - (1.0F - f.smoothing) - uniform);
      if constexpr (Soft::kAny) shared.d_label += shared.tempered * fast_exp2(soft.inverse * exponent);
    }
  }
  if (!gradient) return;
  sync_threads();  // also between the read of the label's logit and the writes below
  const typename Soft::RowGradient g = shared;
  const auto d_logit = [&](float x) {
    const float exponent = fmaf(kLog2E, x, -g.max);
    float rest = -g.uniform;
    if constexpr (Soft::kAny) rest = fmaf(g.tempered, fast_exp2(soft.inverse * exponent), rest);
    return fmaf(g.normal, fast_exp2(exponent), rest);
  };
  const auto less_target = [&](float d, float r) {
    if constexpr (Soft::kAny) return fmaf(-g.target, r, d);
    return d;
  };
  for (int p = thread; p < f.packs; p += kCrossEntropyThreads) {
    float x[kPack], r[kPack] = {};
    unpack(read[p], x);
    if constexpr (Soft::kDense) soft.load_pack(targets, p, r);
    for (int i = 0; i < kPack; ++i) {
      x[i] = d_logit(x[i]);
      if constexpr (Soft::kDense) x[i] = less_target(x[i], r[i]);
    }
    packs[p] = pack<T>(x);
  }
  for (int c = loose; c < f.cols; c += kCrossEntropyThreads) {
    float d = c < f.vocab ? d_logit(load(row[c])) : 0.0F;
    if constexpr (Soft::kDense) d = c < f.vocab ? less_target(d, targets[c]) : d;
    store(row[c], d);
  }
  const int place = label - f.packs * kPack;
  const int owner = (place < 0 ? label / kPack : place) % kCrossEntropyThreads;
  if (known && thread == owner) {
    float d = g.d_label;
    if constexpr (Soft::kDense) d = less_target(d, targets[label]);
    store(row[label], d);
  }
  if constexpr (Soft::kAny && !Soft::kDense) {
    sync_threads();  // the columns of the listed tokens are written
    if (token < 0 || token >= f.vocab) return;
    store(row[token], less_target(token == label ? g.d_label : d_logit(at_token), targets[thread]));
  }
}

/// Grid: rows; block: kCrossEntropyThreads.
template <typename T, bool kKept, bool kWeighted>
__global__ void __launch_bounds__(kCrossEntropyThreads, kKept ? kResidentBlocks : 2)
    cross_entropy_row(CrossEntropyProblem<T> f) {
  loss_of_row<T, kKept, kWeighted>(f, NoTargets());
}

/// The same with soft targets. Grid: rows; block: kCrossEntropyThreads.
template <typename T, bool kKept, bool kDense>
__global__ void __launch_bounds__(kCrossEntropyThreads, 2)
    soft_cross_entropy_row(CrossEntropyProblem<T> f, Targets<kDense> soft) {
  loss_of_row<T, kKept, /*kWeighted=*/false>(f, soft);
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
    const SoftTargets& soft = args.soft;
    const bool dense = soft && soft.indices == nullptr;
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
    static_assert(sizeof(Targets<true>::RowPart) * kCrossEntropyWarps + sizeof(Targets<true>::RowGradient) <=
                  kDeclaredSharedBytes / 2);
    const size_t row_bytes = static_cast<size_t>(packs) * sizeof(Packed<T>);
    const bool kept = args.gradient && !keeps_less(context.cuda().shared_bytes, row_bytes, 0);
    const auto launch_rows = [&](const char* name, auto kernel, const auto&... arguments) {
      launch({.name = name,
              .grid = static_cast<unsigned>(args.logits.rows),
              .block = kCrossEntropyThreads,
              .shared_bytes = kept ? row_bytes : 0},
             stream_of(context), kernel, f, arguments...);
    };
    dispatch_flag(kept, [&](auto flag) {
      constexpr bool kKept = decltype(flag)::value;
      if (!soft) {
        return dispatch_flag(args.weights != nullptr, [&](auto weighted) {
          launch_rows("cross_entropy_row", cross_entropy_row<T, kKept, decltype(weighted)::value>);
        });
      }
      dispatch_flag(dense, [&](auto of_all) {
        constexpr bool kDense = decltype(of_all)::value;
        launch_rows("soft_cross_entropy_row", soft_cross_entropy_row<T, kKept, kDense>,
                    Targets<kDense>{.probabilities = rows_of<float>(soft.probabilities),
                                    .indices = soft.indices,
                                    .count = static_cast<int>(soft.probabilities.cols),
                                    .weight = soft.weight,
                                    .temperature = soft.temperature,
                                    .inverse = 1.0F / soft.temperature,
                                    .vectors = vectors_fit(soft.probabilities)});
      });
    });
  });
}

void loss_sum_cuda(Context& context, const LossSumArgs& args) {
  launch({.name = "sum_losses", .grid = 1, .block = kSumThreads}, stream_of(context), sum_losses,
         args.loss.as<float>(), args.nll.as<float>(), args.loss.cols, args.totals);
}

}  // namespace ventris
