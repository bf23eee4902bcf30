#include <cmath>

#include "backend/cuda/column_sums.cuh"
#include "backend/cuda/elements.cuh"
#include "backend/layer_norm_cuda.h"
#include "backend/op_checks.h"

namespace ventris {
namespace {

using namespace cuda;

constexpr int kWarps = 4;
constexpr int kBackwardWarps = 8;                      // few blocks: their warps must keep the memory busy
constexpr int64_t kLanePack = int64_t{kWarp} * kPack;  // columns that a warp takes at a time

template <typename T>
struct Forward {
  Rows<const T> x;  // or null
  Rows<const T> residual;
  const float* gamma;
  const float* beta;
  Rows<T> sum;  // or null
  float* mean;  // or null
  float* rstd;  // or null
  Rows<T> y;
  int64_t rows;
  int64_t cols;
  float epsilon;
  Mask mask;
};

/// One warp: one row, held in registers as kPacks packs of each lane; it alone writes the row of sum and y,
/// and lane 0 the statistics. Grid: rows / kWarps; block: kWarps warps.
template <typename T, int kPacks, bool kVectors>
__global__ void __launch_bounds__(kWarps* kWarp) norm_forward(Forward<T> f) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t r = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
  if (r >= f.rows) return;
  float v[kPacks][kPack];
  float total = 0.0F;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int64_t begin = p * kLanePack + lane * kPack;
    if (begin >= f.cols) {
      for (int i = 0; i < kPack; ++i) v[p][i] = 0.0F;
      continue;
    }
    load_pack<kVectors>(f.residual.row(r), begin, f.cols, v[p]);
    if (f.x.data != nullptr) {
      float x[kPack];
      load_pack<kVectors>(f.x.row(r), begin, f.cols, x);
      f.mask.apply(static_cast<uint32_t>(r), static_cast<uint32_t>(begin / kPack), x);
      for (int i = 0; i < kPack; ++i) v[p][i] = rounded<T>(v[p][i] + x[i]);
      if (f.sum.data != nullptr) store_pack<kVectors>(f.sum.row(r), begin, f.cols, v[p]);
    }
    for (int i = 0; i < kPack; ++i) total += v[p][i];
  }
  const float n = static_cast<float>(f.cols);
  const float mean = warp_sum(total) / n;
  float squares = 0.0F;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int64_t begin = p * kLanePack + lane * kPack;
    for (int i = 0; i < kPack; ++i) {
      const float centred = begin + i < f.cols ? v[p][i] - mean : 0.0F;
      squares += centred * centred;
    }
  }
  const float rstd = 1.0F / sqrtf(warp_sum(squares) / n + f.epsilon);
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int64_t begin = p * kLanePack + lane * kPack;
    if (begin >= f.cols) continue;
    float gamma[kPack];
    float beta[kPack];
    load_pack<kVectors>(f.gamma, begin, f.cols, gamma);
    load_pack<kVectors>(f.beta, begin, f.cols, beta);
    for (int i = 0; i < kPack; ++i) v[p][i] = gamma[i] * ((v[p][i] - mean) * rstd) + beta[i];
    store_pack<kVectors>(f.y.row(r), begin, f.cols, v[p]);
  }
  if (lane == 0 && f.mean != nullptr) f.mean[r] = mean;
  if (lane == 0 && f.rstd != nullptr) f.rstd[r] = rstd;
}

template <typename T>
struct Backward {
  Rows<const T> d_y;
  Rows<const T> d_sum_in;  // or null
  Rows<const T> sum;
  const float* mean;
  const float* rstd;
  const float* gamma;
  Rows<T> d_residual;
  Rows<T> d_x;     // or null
  float* partial;  // [blocks, 3, cols]: column sums for gamma, beta and bias
  int64_t rows;
  int64_t cols;
  int64_t block_rows;
  Mask mask;
};

/// One block: block_rows rows; warp w takes rows w, w + kBackwardWarps, ..., a row in registers as in
/// norm_forward, and writes d_residual and d_x of it. The lanes carry the column sums of their columns; at
/// the end the warps' are added in order through shared memory (3 * cols floats) and go to the block's part
/// of `partial`. Grid: rows / block_rows.
template <typename T, int kPacks, bool kVectors>
__global__ void __launch_bounds__(kBackwardWarps* kWarp) norm_backward(Backward<T> f) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t first = int64_t{blockIdx.x} * f.block_rows;
  const int64_t end = first + f.block_rows < f.rows ? first + f.block_rows : f.rows;
  const float n = static_cast<float>(f.cols);
  float sums[3][kPacks][kPack] = {};
  for (int64_t r = first + warp; r < end; r += kBackwardWarps) {
    const float mean = f.mean[r];
    const float rstd = f.rstd[r];
    float g[kPacks][kPack] = {};
    float xhat[kPacks][kPack] = {};
    float g_total = 0.0F;
    float gx_total = 0.0F;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int64_t begin = p * kLanePack + lane * kPack;
      if (begin >= f.cols) continue;
      float gamma[kPack];
      load_pack<kVectors>(f.gamma, begin, f.cols, gamma);
      load_pack<kVectors>(f.d_y.row(r), begin, f.cols, g[p]);
      load_pack<kVectors>(f.sum.row(r), begin, f.cols, xhat[p]);
      for (int i = 0; i < kPack; ++i) {
        xhat[p][i] = (xhat[p][i] - mean) * rstd;
        sums[0][p][i] += g[p][i] * xhat[p][i];
        sums[1][p][i] += g[p][i];
        g[p][i] *= gamma[i];  // 0 past the last column, as are d_y and gamma there
        g_total += g[p][i];
        gx_total += g[p][i] * xhat[p][i];
      }
    }
    const float g_mean = warp_sum(g_total) / n;
    const float gx_mean = warp_sum(gx_total) / n;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int64_t begin = p * kLanePack + lane * kPack;
      if (begin >= f.cols) continue;
      float d_sum[kPack] = {};
      if (f.d_sum_in.data != nullptr) load_pack<kVectors>(f.d_sum_in.row(r), begin, f.cols, d_sum);
      for (int i = 0; i < kPack; ++i) d_sum[i] += rstd * (g[p][i] - g_mean - xhat[p][i] * gx_mean);
      store_pack<kVectors>(f.d_residual.row(r), begin, f.cols, d_sum);
      if (f.d_x.data == nullptr) continue;
      f.mask.apply(static_cast<uint32_t>(r), static_cast<uint32_t>(begin / kPack), d_sum);
      store_pack<kVectors>(f.d_x.row(r), begin, f.cols, d_sum);
      for (int i = 0; i < kPack; ++i) sums[2][p][i] += d_sum[i];
    }
  }
  float* shared = dynamic_shared<float>();  // [3, cols]
  for (int turn = 0; turn < kBackwardWarps; ++turn) {
    if (turn == warp) {
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
        for (int i = 0; i < kPack; ++i) {
          const int64_t column = p * kLanePack + lane * kPack + i;
          if (column >= f.cols) continue;
          for (int s = 0; s < 3; ++s) {
            float* to = shared + s * f.cols + column;
            *to = turn == 0 ? sums[s][p][i] : *to + sums[s][p][i];
          }
        }
      }
    }
    sync_threads();
  }
  for (int64_t i = threadIdx.x; i < 3 * f.cols; i += kBackwardWarps * kWarp) {
    f.partial[int64_t{blockIdx.x} * 3 * f.cols + i] = shared[i];
  }
}

/// Calls body with the number of packs that a lane must hold.
template <typename Body>
void dispatch_packs(int64_t cols, Body&& body) {
  constexpr int64_t kMost = 16 * kLanePack;
  VENTRIS_CHECK(cols <= kMost, "LayerNorm on cuda takes rows of at most {} columns, not {}", kMost, cols);
  if (cols <= kLanePack) return body(std::integral_constant<int, 1>{});
  if (cols <= 2 * kLanePack) return body(std::integral_constant<int, 2>{});
  if (cols <= 4 * kLanePack) return body(std::integral_constant<int, 4>{});
  body(std::integral_constant<int, 16>{});
}

float* floats(const Tensor& tensor) {
  return tensor ? tensor.as<float>() : nullptr;
}

}  // namespace

void layer_norm_forward_cuda(Context& context, const LayerNormForwardArgs& args) {
  const bool fit = all_vectors_fit(args.x, args.residual, args.gamma, args.beta, args.sum, args.y);
  dispatch_device_dtype(args.residual.dtype, "layer_norm_forward", [&](auto tag) {
    using T = decltype(tag);
    const Forward<T> f{.x = rows_of<T>(args.x),
                       .residual = rows_of<T>(args.residual),
                       .gamma = args.gamma.as<float>(),
                       .beta = args.beta.as<float>(),
                       .sum = rows_of<T>(args.sum),
                       .mean = floats(args.mean),
                       .rstd = floats(args.rstd),
                       .y = rows_of<T>(args.y),
                       .rows = args.residual.rows,
                       .cols = args.residual.cols,
                       .epsilon = args.epsilon,
                       .mask = Mask(args.dropout)};
    dispatch_packs(f.cols, [&](auto packs) {
      dispatch_flag(fit, [&](auto vectors) {
        launch({.name = "norm_forward", .grid = blocks_for(f.rows, kWarps), .block = kWarps * kWarp},
               stream_of(context), norm_forward<T, decltype(packs)::value, decltype(vectors)::value>, f);
      });
    });
  });
}

void layer_norm_backward_cuda(Context& context, const LayerNormBackwardArgs& args) {
  const int64_t rows = args.d_y.rows;
  const int64_t cols = args.d_y.cols;
  const int64_t block_rows = rows_of_partial(rows);
  const int64_t partials = (rows + block_rows - 1) / block_rows;
  need_scratch(context, static_cast<size_t>(partials * 3 * cols) * sizeof(float));
  ArenaScope scope(context.scratch());
  float* partial = context.scratch().allocate_array<float>(partials * 3 * cols);
  const bool fit = all_vectors_fit(args.d_y, args.d_sum_in, args.sum, args.gamma, args.d_residual, args.d_x);
  dispatch_device_dtype(args.d_y.dtype, "layer_norm_backward", [&](auto tag) {
    using T = decltype(tag);
    const Backward<T> f{.d_y = rows_of<T>(args.d_y),
                        .d_sum_in = rows_of<T>(args.d_sum_in),
                        .sum = rows_of<T>(args.sum),
                        .mean = args.mean.as<float>(),
                        .rstd = args.rstd.as<float>(),
                        .gamma = args.gamma.as<float>(),
                        .d_residual = rows_of<T>(args.d_residual),
                        .d_x = rows_of<T>(args.d_x),
                        .partial = partial,
                        .rows = rows,
                        .cols = cols,
                        .block_rows = block_rows,
                        .mask = Mask(args.dropout)};
    dispatch_packs(cols, [&](auto packs) {
      dispatch_flag(fit, [&](auto vectors) {
        launch({.name = "norm_backward",
                .grid = static_cast<unsigned>(partials),
                .block = kBackwardWarps * kWarp,
                .shared_bytes = static_cast<size_t>(3 * cols) * sizeof(float)},
               stream_of(context), norm_backward<T, decltype(packs)::value, decltype(vectors)::value>, f);
      });
    });
  });
  add_column_sums(context, partial, partials, 3 * cols, cols,
                  {{floats(args.d_gamma), floats(args.d_beta), floats(args.d_bias)}});
}

}  // namespace ventris
