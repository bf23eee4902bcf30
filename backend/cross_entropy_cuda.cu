#include <cmath>

#include "backend/cross_entropy.h"
#include "backend/cuda/elements.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/softmax_row.cuh"
#include "backend/kernels_cuda.h"

namespace ventris {
namespace {

using namespace cuda;

template <typename T>
struct Problem {
  Rows<T> logits;
  const int32_t* labels;
  int64_t first_row;
  const int32_t* tokens;
  int64_t vocab;
  int64_t cols;
  float smoothing;
  const float* gradient_scale;  // null: no gradient
  float* loss;
  float* nll;
};

/// One block: one row; only it writes the row's gradient, loss and nll. Two passes over the row; the second
/// reads it from the caches. A label outside of the vocabulary gives a loss of NaN. Grid: rows; block:
/// kRowThreads.
template <typename T, bool kVectors>
__global__ void __launch_bounds__(kRowThreads) cross_entropy_row(Problem<T> f) {
  __shared__ double room[kRowThreads / kWarp];
  const int64_t t = blockIdx.x;
  T* row = f.logits.row(t);
  const float none[kPack] = {};
  const bool gradient = f.gradient_scale != nullptr;
  if (f.first_row + t >= *f.tokens) {
    for (int64_t begin = int64_t{threadIdx.x} * kPack; gradient && begin < f.cols; begin += kRowPack) {
      store_pack<kVectors>(row, begin, f.cols, none);
    }
    if (threadIdx.x == 0) f.loss[t] = f.nll[t] = 0.0F;
    return;
  }
  const int32_t label = f.labels[t];
  const bool known = label >= 0 && label < f.vocab;
  const float at_label = known ? load(row[label]) : nanf("");
  const RowSums sums =
      row_sums<true, kVectors>(row, f.vocab, room);  // its barriers separate this read from the writes below
  const double log_sum = log(sums.exp);
  const double vocab = static_cast<double>(f.vocab);
  const double smoothing = static_cast<double>(f.smoothing);
  const double nll = log_sum - (static_cast<double>(at_label) - static_cast<double>(sums.max));
  if (threadIdx.x == 0) {
    f.nll[t] = static_cast<float>(nll);
    // -sum_w q(w) log p(w), as the q(w) sum to 1
    f.loss[t] = static_cast<float>((1.0 - smoothing) * nll + smoothing * (log_sum - sums.shifted / vocab));
  }
  if (!gradient) return;
  const double scale = static_cast<double>(*f.gradient_scale);
  const float normal = static_cast<float>(scale / sums.exp);
  const float uniform = static_cast<float>(scale * smoothing / vocab);
  const float d_label = static_cast<float>(scale * (exp(-nll) - (1.0 - smoothing) - smoothing / vocab));
  for (int64_t begin = int64_t{threadIdx.x} * kPack; begin < f.cols; begin += kRowPack) {
    float v[kPack];
    load_pack<kVectors>(row, begin, f.cols, v);
    for (int i = 0; i < kPack; ++i) {
      v[i] = begin + i < f.vocab ? expf(v[i] - sums.max) * normal - uniform : 0.0F;
      if (begin + i == label) v[i] = d_label;
    }
    store_pack<kVectors>(row, begin, f.cols, v);
  }
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
    const Problem<T> f{.logits = rows_of<T>(args.logits),
                       .labels = args.labels,
                       .first_row = args.first_row,
                       .tokens = args.tokens,
                       .vocab = args.vocab,
                       .cols = args.logits.cols,
                       .smoothing = args.smoothing,
                       .gradient_scale = args.gradient ? args.gradient_scale : nullptr,
                       .loss = args.loss.as<float>(),
                       .nll = args.nll.as<float>()};
    dispatch_flag(vectors_fit(args.logits), [&](auto vectors) {
      launch({.name = "cross_entropy_row",
              .grid = static_cast<unsigned>(args.logits.rows),
              .block = kRowThreads},
             stream_of(context), cross_entropy_row<T, decltype(vectors)::value>, f);
    });
  });
}

void loss_sum_cuda(Context& context, const LossSumArgs& args) {
  launch({.name = "sum_losses", .grid = 1, .block = kSumThreads}, stream_of(context), sum_losses,
         args.loss.as<float>(), args.nll.as<float>(), args.loss.cols, args.totals);
}

}  // namespace ventris
