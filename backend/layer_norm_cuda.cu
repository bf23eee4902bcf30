#include <array>
#include <cmath>

#include "backend/cuda/column_sums.cuh"
#include "backend/cuda/elements.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/kernels_cuda.h"
#include "backend/layer_norm.h"
#include "backend/op_checks.h"

namespace ventris {
namespace {

using namespace cuda;

/// The layout of a row in registers: kPacks packs of each thread of kRowWarps warps.
template <int kWarpsOfRow, int kPacksOfThread>
struct RowShape {
  static constexpr int kRowWarps = kWarpsOfRow;
  static constexpr int kPacks = kPacksOfThread;
  static constexpr int kThreads = kRowWarps * kWarp;
  static constexpr int64_t kStep = int64_t{kThreads} * kPack;  // columns that they process at a time
  static constexpr int64_t kMax = kPacks * kStep;
  /// Warps of a block. Backward has few blocks: their warps must keep the memory busy.
  static constexpr int kForwardWarps = kRowWarps == 1 ? 4 : kRowWarps;
  static constexpr int kBackwardWarps = kRowWarps == 1 ? 8 : kRowWarps;
  /// Column sums of backward in registers, or in their destination in memory.
  static constexpr bool kSumsInRegisters = kMax <= 4096;
};

/// The sum over all threads of a row, in a fixed order; each gets it. With more than one warp the block has
/// only this row, and all its threads must call.
template <int kRowWarps>
__device__ __forceinline__ float row_sum(float value) {
  value = warp_sum(value);
  if constexpr (kRowWarps > 1) {
    __shared__ float of_warps[kRowWarps];
    const int thread = static_cast<int>(threadIdx.x);
    sync_threads();  // the sums of the previous call have been read
    if (thread % kWarp == 0) of_warps[thread / kWarp] = value;
    sync_threads();
    value = 0.0F;
    for (int w = 0; w < kRowWarps; ++w) value += of_warps[w];
  }
  return value;
}

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

/// kRowWarps warps: one row; only they write the row of sum and y, and their first thread the statistics.
/// Grid: rows / (kForwardWarps / kRowWarps); block: kForwardWarps warps.
template <typename T, int kRowWarps, int kPacks, bool kVectors>
__global__ void __launch_bounds__(RowShape<kRowWarps, kPacks>::kForwardWarps* kWarp)
    norm_forward(Forward<T> f) {
  using Shape = RowShape<kRowWarps, kPacks>;
  const int thread = static_cast<int>(threadIdx.x) % Shape::kThreads;
  const int64_t r = int64_t{blockIdx.x} * (Shape::kForwardWarps / kRowWarps) + threadIdx.x / Shape::kThreads;
  if (r >= f.rows) return;
  float v[kPacks][kPack];
  float total = 0.0F;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int64_t begin = p * Shape::kStep + thread * kPack;
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
  const float mean = row_sum<kRowWarps>(total) / n;
  float squares = 0.0F;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int64_t begin = p * Shape::kStep + thread * kPack;
    for (int i = 0; i < kPack; ++i) {
      const float centred = begin + i < f.cols ? v[p][i] - mean : 0.0F;
      squares += centred * centred;
    }
  }
  const float rstd = 1.0F / sqrtf(row_sum<kRowWarps>(squares) / n + f.epsilon);
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int64_t begin = p * Shape::kStep + thread * kPack;
    if (begin >= f.cols) continue;
    float gamma[kPack];
    float beta[kPack];
    load_pack<kVectors>(f.gamma, begin, f.cols, gamma);
    load_pack<kVectors>(f.beta, begin, f.cols, beta);
    for (int i = 0; i < kPack; ++i) v[p][i] = gamma[i] * ((v[p][i] - mean) * rstd) + beta[i];
    store_pack<kVectors>(f.y.row(r), begin, f.cols, v[p]);
  }
  if (thread == 0 && f.mean != nullptr) f.mean[r] = mean;
  if (thread == 0 && f.rstd != nullptr) f.rstd[r] = rstd;
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

/// to = or += the sums of one row, by the only thread that has its columns.
__device__ __forceinline__ void add_row(const float (&row)[kPack], int64_t begin, int64_t cols, bool first,
                                        float* to) {
  for (int i = 0; i < kPack; ++i) {
    if (begin + i < cols) to[begin + i] = first ? row[i] : to[begin + i] + row[i];
  }
}

/// One block: block_rows rows, kTeams of them at a time in registers as in norm_forward, each with a team of
/// kRowWarps warps that writes its d_residual and d_x. The threads carry the column sums of their columns; at
/// the end the teams' are added in order through shared memory (3 * cols floats) and go to the block's part
/// of `partial`. A single team needs no shared memory. Grid: rows / block_rows.
template <typename T, int kRowWarps, int kPacks, bool kVectors>
__global__ void __launch_bounds__(RowShape<kRowWarps, kPacks>::kBackwardWarps* kWarp)
    norm_backward(Backward<T> f) {
  using Shape = RowShape<kRowWarps, kPacks>;
  constexpr int kTeams = Shape::kBackwardWarps / kRowWarps;
  constexpr bool kInRegisters = Shape::kSumsInRegisters;
  const int team = static_cast<int>(threadIdx.x) / Shape::kThreads;
  const int thread = static_cast<int>(threadIdx.x) % Shape::kThreads;
  const int64_t first = int64_t{blockIdx.x} * f.block_rows;
  const int64_t end = first + f.block_rows < f.rows ? first + f.block_rows : f.rows;
  const float n = static_cast<float>(f.cols);
  float* partial = f.partial + int64_t{blockIdx.x} * 3 * f.cols;
  float sums[3][kInRegisters ? kPacks : 1][kPack] = {};
  for (int64_t r = first + team; r < end; r += kTeams) {
    const float mean = f.mean[r];
    const float rstd = f.rstd[r];
    float g[kPacks][kPack] = {};
    float xhat[kPacks][kPack] = {};
    float g_total = 0.0F;
    float gx_total = 0.0F;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int64_t begin = p * Shape::kStep + thread * kPack;
      if (begin >= f.cols) continue;
      float gamma[kPack];
      load_pack<kVectors>(f.gamma, begin, f.cols, gamma);
      load_pack<kVectors>(f.d_y.row(r), begin, f.cols, g[p]);
      load_pack<kVectors>(f.sum.row(r), begin, f.cols, xhat[p]);
      if constexpr (!kInRegisters) {
        for (int i = 0; i < kPack; ++i) sums[0][0][i] = g[p][i] * ((xhat[p][i] - mean) * rstd);
        add_row(sums[0][0], begin, f.cols, r == first, partial);
        add_row(g[p], begin, f.cols, r == first, partial + f.cols);
      }
      for (int i = 0; i < kPack; ++i) {
        xhat[p][i] = (xhat[p][i] - mean) * rstd;
        if constexpr (kInRegisters) {
          sums[0][p][i] += g[p][i] * xhat[p][i];
          sums[1][p][i] += g[p][i];
        }
        g[p][i] *= gamma[i];  // 0 after the last column, as are d_y and gamma there
        g_total += g[p][i];
        gx_total += g[p][i] * xhat[p][i];
      }
    }
    const float g_mean = row_sum<kRowWarps>(g_total) / n;
    const float gx_mean = row_sum<kRowWarps>(gx_total) / n;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int64_t begin = p * Shape::kStep + thread * kPack;
      if (begin >= f.cols) continue;
      float d_sum[kPack] = {};
      if (f.d_sum_in.data != nullptr) load_pack<kVectors>(f.d_sum_in.row(r), begin, f.cols, d_sum);
      for (int i = 0; i < kPack; ++i) d_sum[i] += rstd * (g[p][i] - g_mean - xhat[p][i] * gx_mean);
      store_pack<kVectors>(f.d_residual.row(r), begin, f.cols, d_sum);
      if (f.d_x.data == nullptr) continue;
      f.mask.apply(static_cast<uint32_t>(r), static_cast<uint32_t>(begin / kPack), d_sum);
      store_pack<kVectors>(f.d_x.row(r), begin, f.cols, d_sum);
      if constexpr (kInRegisters) {
        for (int i = 0; i < kPack; ++i) sums[2][p][i] += d_sum[i];
      } else {
        add_row(d_sum, begin, f.cols, r == first, partial + 2 * f.cols);
      }
    }
  }
  if constexpr (kInRegisters) {
    // The results of a single team are those of the block; several teams add theirs in shared memory.
    float* to = kTeams == 1 ? partial : dynamic_shared<float>();  // [3, cols]
    for (int turn = 0; turn < kTeams; ++turn) {
      if (turn == team) {
#pragma unroll
        for (int p = 0; p < kPacks; ++p) {
          const int64_t begin = p * Shape::kStep + thread * kPack;
          for (int k = 0; k < 3; ++k) add_row(sums[k][p], begin, f.cols, turn == 0, to + k * f.cols);
        }
      }
      sync_threads();
    }
    if constexpr (kTeams > 1) {
      for (int64_t i = threadIdx.x; i < 3 * f.cols; i += Shape::kBackwardWarps * kWarp) partial[i] = to[i];
    }
  }
}

/// Calls body with the layout for rows of this many columns.
template <typename Body>
void dispatch_shape(int64_t cols, Body&& body) {
  using Widest = RowShape<16, 4>;
  VENTRIS_CHECK(cols <= Widest::kMax, "LayerNorm on cuda supports rows of at most {} columns, not {}",
                Widest::kMax, cols);
  if (cols <= RowShape<1, 1>::kMax) return body(RowShape<1, 1>{});
  if (cols <= RowShape<1, 2>::kMax) return body(RowShape<1, 2>{});
  if (cols <= RowShape<1, 4>::kMax) return body(RowShape<1, 4>{});
  if (cols <= RowShape<8, 2>::kMax) return body(RowShape<8, 2>{});
  body(Widest{});
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
    dispatch_shape(f.cols, [&](auto shape) {
      using Shape = decltype(shape);
      dispatch_flag(fit, [&](auto vectors) {
        launch({.name = "norm_forward",
                .grid = blocks_for(f.rows, Shape::kForwardWarps / Shape::kRowWarps),
                .block = Shape::kForwardWarps * kWarp},
               stream_of(context), norm_forward<T, Shape::kRowWarps, Shape::kPacks, decltype(vectors)::value>,
               f);
      });
    });
  });
}

void layer_norm_backward_cuda(Context& context, const LayerNormBackwardArgs& args) {
  const int64_t rows = args.d_y.rows;
  const int64_t cols = args.d_y.cols;
  const int64_t block_rows = rows_of_partial(rows);
  const int64_t partials = (rows + block_rows - 1) / block_rows;
  ColumnParts parts(context, partials, 3 * cols, args.sums_later);
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
                        .partial = parts.data(),
                        .rows = rows,
                        .cols = cols,
                        .block_rows = block_rows,
                        .mask = Mask(args.dropout)};
    dispatch_shape(cols, [&](auto shape) {
      using Shape = decltype(shape);
      constexpr bool kAlone = Shape::kBackwardWarps == Shape::kRowWarps;
      dispatch_flag(fit, [&](auto vectors) {
        launch({.name = "norm_backward",
                .grid = static_cast<unsigned>(partials),
                .block = Shape::kBackwardWarps * kWarp,
                .shared_bytes = kAlone ? 0 : static_cast<size_t>(3 * cols) * sizeof(float)},
               stream_of(context),
               norm_backward<T, Shape::kRowWarps, Shape::kPacks, decltype(vectors)::value>, f);
      });
    });
  });
  parts.sum(cols, std::array{floats(args.d_gamma), floats(args.d_beta), floats(args.d_bias)});
}

}  // namespace ventris
