// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>

#include "backend/cuda/column_sums.cuh"
#include "backend/cuda/elements.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/ops/layer_norm.h"
#include "backend/ops/op_checks.h"

namespace ventris {
namespace {

using namespace cuda;

/// The layout of a row in registers: kPacks packs of each thread of a team of kRowWarps warps, kTeams of them
/// in a block of at least kLeastWarps warps.
template <int kWarpsOfRow, int kPacksOfThread, int kLeastWarps>
struct RowShape {
  static constexpr int kRowWarps = kWarpsOfRow;
  static constexpr int kPacks = kPacksOfThread;
  static constexpr int kThreads = kRowWarps * kWarp;
  static constexpr int kStep = kThreads * kPack;  // columns that they process at a time
  static constexpr int kMax = kPacks * kStep;
  static constexpr int kTeams = kRowWarps < kLeastWarps ? kLeastWarps / kRowWarps : 1;
  static constexpr int kBlock = kTeams * kThreads;
};
/// LayerNormForward exchanges sums between warps only where a row is too long for the registers of one.
template <int kRowWarps, int kPacks>
using ForwardShape = RowShape<kRowWarps, kPacks, 4>;
/// LayerNormBackward also has three column sums for every column of a thread: so a thread has one pack alone
/// and many warps fit, but for the longest rows, whose column sums are in memory.
template <int kRowWarps, int kPacks = 1>
using BackwardShape = RowShape<kRowWarps, kPacks, 8>;

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
struct LayerNormForward {
  Rows<const T> x;  // or null
  Rows<const T> residual;
  const float* gamma;
  const float* beta;
  Rows<T> sum;  // or null
  float* mean;  // or null
  float* rstd;  // or null
  Rows<T> y;
  int64_t rows;
  int cols;
  float epsilon;
  Mask mask;
};

/// kRowWarps warps: one row; only they write the row of sum and y, and their first thread the statistics.
/// Grid: rows / kTeams; block: kBlock threads.
template <typename T, int kRowWarps, int kPacks, bool kWhole>
__global__ void __launch_bounds__(ForwardShape<kRowWarps, kPacks>::kBlock)
    norm_forward(LayerNormForward<T> f) {
  using Shape = ForwardShape<kRowWarps, kPacks>;
  const int thread = static_cast<int>(threadIdx.x) % Shape::kThreads;
  const int64_t r = int64_t{blockIdx.x} * Shape::kTeams + threadIdx.x / Shape::kThreads;
  if (r >= f.rows) return;
  float v[kPacks][kPack];
  float total = 0.0F;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int begin = p * Shape::kStep + thread * kPack;
    if (begin >= f.cols) {
      for (int i = 0; i < kPack; ++i) v[p][i] = 0.0F;
      continue;
    }
    unpack(load_row_pack<kWhole>(f.residual.row(r), begin, f.cols), v[p]);
    if (f.x.data != nullptr) {
      float x[kPack];
      unpack(load_row_pack<kWhole>(f.x.row(r), begin, f.cols), x);
      f.mask.apply(static_cast<uint32_t>(r), static_cast<uint32_t>(begin / kPack), x);
      for (int i = 0; i < kPack; ++i) v[p][i] = rounded<T>(v[p][i] + x[i]);
      if (f.sum.data != nullptr) store_row_pack<kWhole>(f.sum.row(r), begin, f.cols, v[p]);
    }
    for (int i = 0; i < kPack; ++i) total += v[p][i];
  }
  const float n = static_cast<float>(f.cols);
  const float mean = row_sum<kRowWarps>(total) / n;
  float squares = 0.0F;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int begin = p * Shape::kStep + thread * kPack;
    for (int i = 0; i < kPack; ++i) {
      const float centred = begin + i < f.cols ? v[p][i] - mean : 0.0F;
      squares += centred * centred;
    }
  }
  const float rstd = 1.0F / sqrtf(row_sum<kRowWarps>(squares) / n + f.epsilon);
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int begin = p * Shape::kStep + thread * kPack;
    if (begin >= f.cols) continue;
    float gamma[kPack];
    float beta[kPack];
    unpack(load_row_pack<kWhole>(f.gamma, begin, f.cols), gamma);
    unpack(load_row_pack<kWhole>(f.beta, begin, f.cols), beta);
    for (int i = 0; i < kPack; ++i) v[p][i] = gamma[i] * ((v[p][i] - mean) * rstd) + beta[i];
    store_row_pack<kWhole>(f.y.row(r), begin, f.cols, v[p]);
  }
  if (thread == 0 && f.mean != nullptr) f.mean[r] = mean;
  if (thread == 0 && f.rstd != nullptr) f.rstd[r] = rstd;
}

template <typename T>
struct LayerNormBackward {
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
  int cols;
  int64_t block_rows;
  Mask mask;
};

/// What a thread needs for one of its packs, as it lies in memory.
template <typename T>
struct BackwardPack {
  Packed<T> d_y, sum, d_sum_in;
};
template <bool kWhole, typename T>
__device__ __forceinline__ BackwardPack<T> load_inputs(const LayerNormBackward<T>& f, int64_t r, int begin) {
  return {load_row_pack<kWhole>(f.d_y.row(r), begin, f.cols),
          load_row_pack<kWhole>(f.sum.row(r), begin, f.cols),
          f.d_sum_in.data == nullptr ? Packed<T>{} : load_row_pack<kWhole>(f.d_sum_in.row(r), begin, f.cols)};
}

/// Both sums over the threads of each team, in a fixed order; every thread of the team gets its team's. All
/// threads of the block must call, with `turn` counting the calls: sums of one call stay while the next one
/// writes.
template <int kTeams, int kRowWarps>
__device__ __forceinline__ void team_sums(int turn, float& a, float& b) {
  a = warp_sum(a);
  b = warp_sum(b);
  if constexpr (kRowWarps > 1) {
    __shared__ float of_warps[2][kTeams * kRowWarps][2];
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    auto& sums = of_warps[turn % 2];
    if (threadIdx.x % kWarp == 0) sums[warp][0] = a, sums[warp][1] = b;
    sync_threads();
    a = b = 0.0F;
    for (int w = 0; w < kRowWarps; ++w) {
      a += sums[warp / kRowWarps * kRowWarps + w][0];
      b += sums[warp / kRowWarps * kRowWarps + w][1];
    }
  }
}

/// to = or += the sums of one row, by the only thread that has its columns.
__device__ __forceinline__ void add_row(const float (&row)[kPack], int begin, int cols, bool first,
                                        float* to) {
  for (int i = 0; i < kPack; ++i) {
    if (begin + i < cols) to[begin + i] = first ? row[i] : to[begin + i] + row[i];
  }
}

/// One block: block_rows rows, kTeams of them at a time, each with a team of kRowWarps warps that writes its
/// d_residual and d_x. A thread with one pack of a row carries the column sums of its columns, and loads the
/// next row before it computes one; at the end the teams' are added in order through shared memory (3 * cols
/// floats) and go to the block's part of `partial`. A single team needs no shared memory. With more packs
/// there is one team, which adds up in `partial`. Grid: rows / block_rows; block: kBlock threads.
template <typename T, int kRowWarps, int kPacks, bool kWhole>
__global__ void __launch_bounds__(BackwardShape<kRowWarps, kPacks>::kBlock)
    norm_backward(LayerNormBackward<T> f) {
  using Shape = BackwardShape<kRowWarps, kPacks>;
  constexpr int kTeams = Shape::kTeams;
  constexpr bool kInRegisters = kPacks == 1;
  static_assert(kInRegisters || kTeams == 1);
  const int team = static_cast<int>(threadIdx.x) / Shape::kThreads;
  const int column = static_cast<int>(threadIdx.x) % Shape::kThreads * kPack;
  const int64_t first = int64_t{blockIdx.x} * f.block_rows;
  const int64_t end = first + f.block_rows < f.rows ? first + f.block_rows : f.rows;
  const float inverse_cols = 1.0F / static_cast<float>(f.cols);
  float* partial = f.partial + int64_t{blockIdx.x} * 3 * f.cols;
  float sums[3][kPack] = {};
  float gamma[kPack];
  BackwardPack<T> next = {};
  float next_mean = 0.0F;
  float next_rstd = 0.0F;
  const auto load_next = [&](int64_t r) {
    next_mean = f.mean[r];
    next_rstd = f.rstd[r];
    if constexpr (kInRegisters) next = load_inputs<kWhole>(f, r, column);
  };
  if constexpr (kInRegisters) unpack(load_row_pack<kWhole>(f.gamma, column, f.cols), gamma);
  if (first + team < end) load_next(first + team);
  int turn = 0;
  for (int64_t turn_row = first; turn_row < end; turn_row += kTeams, ++turn) {
    const int64_t r = turn_row + team;
    const bool works = r < end;
    const BackwardPack<T> inputs = next;
    const float mean = next_mean;
    const float rstd = next_rstd;
    if (r + kTeams < end) load_next(r + kTeams);
    float g[kPacks][kPack] = {};
    float xhat[kPacks][kPack] = {};
    float g_total = 0.0F;
    float gx_total = 0.0F;
    if (works) {
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
        const int begin = column + p * Shape::kStep;
        if constexpr (kInRegisters) {
          unpack(inputs.d_y, g[p]);
          unpack(inputs.sum, xhat[p]);
        } else {
          unpack(load_row_pack<kWhole>(f.gamma, begin, f.cols), gamma);
          unpack(load_row_pack<kWhole>(f.d_y.row(r), begin, f.cols), g[p]);
          unpack(load_row_pack<kWhole>(f.sum.row(r), begin, f.cols), xhat[p]);
        }
        for (int i = 0; i < kPack; ++i) xhat[p][i] = (xhat[p][i] - mean) * rstd;
        if constexpr (kInRegisters) {
          for (int i = 0; i < kPack; ++i) {
            sums[0][i] += g[p][i] * xhat[p][i];
            sums[1][i] += g[p][i];
          }
        } else {
          for (int i = 0; i < kPack; ++i) sums[0][i] = g[p][i] * xhat[p][i];
          add_row(sums[0], begin, f.cols, r == first, partial);
          add_row(g[p], begin, f.cols, r == first, partial + f.cols);
        }
        for (int i = 0; i < kPack; ++i) {
          g[p][i] *= gamma[i];  // 0 after the last column, as are d_y and gamma there
          g_total += g[p][i];
          gx_total += g[p][i] * xhat[p][i];
        }
      }
    }
    team_sums<kTeams, kRowWarps>(turn, g_total, gx_total);
    if (!works) continue;
    const float g_mean = g_total * inverse_cols;
    const float gx_mean = gx_total * inverse_cols;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int begin = column + p * Shape::kStep;
      if (begin >= f.cols) continue;
      float d_sum[kPack] = {};
      if constexpr (kInRegisters) {
        unpack(inputs.d_sum_in, d_sum);
      } else if (f.d_sum_in.data != nullptr) {
        unpack(load_row_pack<kWhole>(f.d_sum_in.row(r), begin, f.cols), d_sum);
      }
      for (int i = 0; i < kPack; ++i) d_sum[i] += rstd * (g[p][i] - g_mean - xhat[p][i] * gx_mean);
      store_row_pack<kWhole>(f.d_residual.row(r), begin, f.cols, d_sum);
      if (f.d_x.data == nullptr) continue;
      f.mask.apply(static_cast<uint32_t>(r), static_cast<uint32_t>(begin / kPack), d_sum);
      store_row_pack<kWhole>(f.d_x.row(r), begin, f.cols, d_sum);
      if constexpr (kInRegisters) {
        for (int i = 0; i < kPack; ++i) sums[2][i] += d_sum[i];
      } else {
        add_row(d_sum, begin, f.cols, r == first, partial + 2 * f.cols);
      }
    }
  }
  if constexpr (kInRegisters) {
    // The results of a single team are those of the block; several teams add theirs in shared memory.
    float* to = kTeams == 1 ? partial : dynamic_shared<float>();  // [3, cols]
    for (int adding = 0; adding < kTeams; ++adding) {
      if (adding == team) {
        for (int k = 0; k < 3; ++k) add_row(sums[k], column, f.cols, adding == 0, to + k * f.cols);
      }
      sync_threads();
    }
    if constexpr (kTeams > 1) {
      for (int i = static_cast<int>(threadIdx.x); i < 3 * f.cols; i += Shape::kBlock) partial[i] = to[i];
    }
  }
}

/// Calls body with the first of the layouts, which grow, that rows of this many columns fit.
template <typename Shape, typename... Wider, typename Body>
void dispatch_shape(int64_t cols, Body&& body) {
  if constexpr (sizeof...(Wider) > 0) {
    if (cols > Shape::kMax) return dispatch_shape<Wider...>(cols, body);
  }
  VENTRIS_CHECK(cols <= Shape::kMax, "LayerNorm on cuda supports rows of at most {} columns, not {}",
                Shape::kMax, cols);
  body(Shape{});
}

float* floats(const Tensor& tensor) {
  return tensor ? tensor.as<float>() : nullptr;
}

}  // namespace

void layer_norm_forward_cuda(Context& context, const LayerNormForwardArgs& args) {
  const bool whole = args.gamma.cols % kPack == 0 &&
                     all_vectors_fit(args.x, args.residual, args.gamma, args.beta, args.sum, args.y);
  dispatch_device_dtype(args.residual.dtype, "layer_norm_forward", [&](auto tag) {
    using T = decltype(tag);
    const LayerNormForward<T> f{.x = rows_of<T>(args.x),
                                .residual = rows_of<T>(args.residual),
                                .gamma = args.gamma.as<float>(),
                                .beta = args.beta.as<float>(),
                                .sum = rows_of<T>(args.sum),
                                .mean = floats(args.mean),
                                .rstd = floats(args.rstd),
                                .y = rows_of<T>(args.y),
                                .rows = args.residual.rows,
                                .cols = static_cast<int>(args.residual.cols),
                                .epsilon = args.epsilon,
                                .mask = Mask(args.dropout)};
    dispatch_shape<ForwardShape<1, 1>, ForwardShape<1, 2>, ForwardShape<1, 4>, ForwardShape<8, 2>,
                   ForwardShape<16, 4>>(f.cols, [&](auto shape) {
      using Shape = decltype(shape);
      dispatch_flag(whole, [&](auto flag) {
        launch({.name = "norm_forward", .grid = blocks_for(f.rows, Shape::kTeams), .block = Shape::kBlock},
               stream_of(context), norm_forward<T, Shape::kRowWarps, Shape::kPacks, decltype(flag)::value>,
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
  const bool whole = args.gamma.cols % kPack == 0 && all_vectors_fit(args.d_y, args.d_sum_in, args.sum,
                                                                     args.gamma, args.d_residual, args.d_x);
  dispatch_device_dtype(args.d_y.dtype, "layer_norm_backward", [&](auto tag) {
    using T = decltype(tag);
    const LayerNormBackward<T> f{.d_y = rows_of<T>(args.d_y),
                                 .d_sum_in = rows_of<T>(args.d_sum_in),
                                 .sum = rows_of<T>(args.sum),
                                 .mean = args.mean.as<float>(),
                                 .rstd = args.rstd.as<float>(),
                                 .gamma = args.gamma.as<float>(),
                                 .d_residual = rows_of<T>(args.d_residual),
                                 .d_x = rows_of<T>(args.d_x),
                                 .partial = parts.data(),
                                 .rows = rows,
                                 .cols = static_cast<int>(cols),
                                 .block_rows = block_rows,
                                 .mask = Mask(args.dropout)};
    dispatch_shape<BackwardShape<1>, BackwardShape<2>, BackwardShape<4>, BackwardShape<8>, BackwardShape<16>,
                   BackwardShape<16, 4>>(cols, [&](auto shape) {
      using Shape = decltype(shape);
      dispatch_flag(whole, [&](auto flag) {
        launch({.name = "norm_backward",
                .grid = static_cast<unsigned>(partials),
                .block = Shape::kBlock,
                .shared_bytes = Shape::kTeams == 1 ? 0 : static_cast<size_t>(3 * cols) * sizeof(float)},
               stream_of(context), norm_backward<T, Shape::kRowWarps, Shape::kPacks, decltype(flag)::value>,
               f);
      });
    });
  });
  parts.sum(cols, std::array{floats(args.d_gamma), floats(args.d_beta), floats(args.d_bias)});
}

}  // namespace ventris
