// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "backend/cpu/dropout.h"
#include "backend/cpu/simd.h"
#include "backend/ops/layer_norm.h"
#include "backend/ops/op_checks.h"

namespace ventris {
namespace {

constexpr int64_t kForwardRows = 16;   // rows of one piece of work
constexpr int64_t kRowsTogether = 4;   // so that the processor overlaps the latencies of their sums
constexpr int64_t kColumnChunks = 64;  // maximum partial sums per column in backward
constexpr int64_t kMinRows = 32;       // rows below which a partial sum does not pay

/// Row r of residual + mask * x, rounded to T: in `sum`, or if that is not needed, in the row of y.
template <typename T>
const T* add_residual(const LayerNormForwardArgs& args, int64_t r, uint16_t* bits) {
  using M = Master<T>;
  const int64_t d = args.residual.cols;
  const T* residual = args.residual.row<T>(r);
  if (!args.x) return residual;
  const T* x = args.x.row<T>(r);
  T* sum = args.sum ? args.sum.row<T>(r) : args.y.row<T>(r);
  if (args.dropout.active()) {
    dropout_row(args.dropout, static_cast<uint32_t>(r), d, 0, bits);
    const auto threshold = static_cast<uint16_t>(args.dropout.threshold());
    const M scale = static_cast<M>(args.dropout.scale());
#pragma omp simd
    for (int64_t c = 0; c < d; ++c) {
      const M kept = load(x[c]) * scale;
      store(sum[c], load(residual[c]) + (bits[c] < threshold ? M{0} : kept));
    }
  } else {
#pragma omp simd
    for (int64_t c = 0; c < d; ++c) store(sum[c], load(residual[c]) + load(x[c]));
  }
  return sum;
}

template <typename T>
void forward(Context& context, const LayerNormForwardArgs& args) {
  using M = Master<T>;
  const int64_t rows = args.residual.rows;
  const int64_t d = args.residual.cols;
  const int threads = context.pool().threads();
  const int64_t room = dropout_room(1, d);
  need_scratch(context, static_cast<size_t>(threads * room) * sizeof(uint16_t));
  ArenaScope scope(context.scratch());
  uint16_t* all_bits = context.scratch().allocate_array<uint16_t>(threads * room);
  const M* gamma = args.gamma.as<M>();
  const M* beta = args.beta.as<M>();
  context.pool().for_ranges(rows, kForwardRows, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t first = begin; first < end; first += kRowsTogether) {
      const int64_t count = std::min(kRowsTogether, end - first);
      const T* sum[kRowsTogether];
      M mean[kRowsTogether];
      M rstd[kRowsTogether];
      for (int64_t i = 0; i < count; ++i) {
        sum[i] = add_residual<T>(args, first + i, all_bits + thread * room);
        const T* x = sum[i];
        mean[i] = row_sum(x, d) / static_cast<M>(d);
      }
      for (int64_t i = 0; i < count; ++i) {
        const T* x = sum[i];
        const M of_row = mean[i];
        const M squares = lane_sum<M>(d, [&](int64_t c) {
          const M centred = load(x[c]) - of_row;
          return centred * centred;
        });
        rstd[i] = M{1} / std::sqrt(squares / static_cast<M>(d) + static_cast<M>(args.epsilon));
      }
      for (int64_t i = 0; i < count; ++i) {
        const int64_t r = first + i;
        const T* x = sum[i];
        const M row_mean = mean[i];
        const M row_rstd = rstd[i];
        T* y = args.y.row<T>(r);
#pragma omp simd
        for (int64_t c = 0; c < d; ++c)
          store(y[c], std::fma(gamma[c], (load(x[c]) - row_mean) * row_rstd, beta[c]));
        if (args.mean) args.mean.as<M>()[r] = row_mean;
        if (args.rstd) args.rstd.as<M>()[r] = row_rstd;
      }
    }
  });
}

/// Column sums of one chunk of rows.
template <typename M>
struct ColumnSums {
  M* gamma;  // [d]
  M* beta;   // [d]
  M* bias;   // [d]
};

/// row = d_sum of row r, also into d_residual; adds to the sums of gamma and beta.
template <typename T>
void backward_row(const LayerNormBackwardArgs& args, int64_t r, const ColumnSums<Master<T>>& sums,
                  Master<T>* row) {
  using M = Master<T>;
  const int64_t d = args.d_y.cols;
  const T* d_y = args.d_y.row<T>(r);
  const T* sum = args.sum.row<T>(r);
  const M* gamma = args.gamma.as<M>();
  const M mean = args.mean.as<M>()[r];
  const M rstd = args.rstd.as<M>()[r];
  M* const sum_gamma = sums.gamma;
  M* const sum_beta = sums.beta;
  const auto [g_total, gx_total] = lane_sums<M>(d, [&](int64_t c, M& first, M& second) {
    const M dy = load(d_y[c]);
    const M xhat = (load(sum[c]) - mean) * rstd;
    const M g = gamma[c] * dy;
    sum_gamma[c] = std::fma(dy, xhat, sum_gamma[c]);
    sum_beta[c] += dy;
    first = g;
    second = g * xhat;
  });
  const M g_mean = g_total / static_cast<M>(d);
  const M gx_mean = gx_total / static_cast<M>(d);
  const auto d_sum = [&](int64_t c) {
    const M xhat = (load(sum[c]) - mean) * rstd;
    return rstd * std::fma(-xhat, gx_mean, std::fma(gamma[c], load(d_y[c]), -g_mean));
  };
  T* d_residual = args.d_residual.row<T>(r);
  if (args.d_sum_in) {
    const T* d_sum_in = args.d_sum_in.row<T>(r);
#pragma omp simd
    for (int64_t c = 0; c < d; ++c) {
      const M value = d_sum(c) + load(d_sum_in[c]);
      row[c] = value;
      store(d_residual[c], value);
    }
  } else {
#pragma omp simd
    for (int64_t c = 0; c < d; ++c) {
      const M value = d_sum(c);
      row[c] = value;
      store(d_residual[c], value);
    }
  }
}

/// d_x of row r from row = d_sum, which is overwritten; adds to the sums of the bias.
template <typename T>
void backward_dropout(const LayerNormBackwardArgs& args, int64_t r, Master<T>* sum_bias, uint16_t* bits,
                      Master<T>* row) {
  using M = Master<T>;
  const int64_t d = args.d_y.cols;
  T* d_x = args.d_x.row<T>(r);
  if (args.dropout.active()) {
    dropout_row(args.dropout, static_cast<uint32_t>(r), d, 0, bits);
    const auto threshold = static_cast<uint16_t>(args.dropout.threshold());
    const M scale = static_cast<M>(args.dropout.scale());
#pragma omp simd
    for (int64_t c = 0; c < d; ++c) {
      const M kept = row[c] * scale;
      const M value = bits[c] < threshold ? M{0} : kept;
      store(d_x[c], value);
      sum_bias[c] += value;
    }
  } else {
#pragma omp simd
    for (int64_t c = 0; c < d; ++c) {
      store(d_x[c], row[c]);
      sum_bias[c] += row[c];
    }
  }
}

template <typename T>
void backward(Context& context, const LayerNormBackwardArgs& args) {
  using M = Master<T>;
  const int64_t rows = args.d_y.rows;
  const int64_t d = args.d_y.cols;
  const int threads = context.pool().threads();
  const int64_t room = dropout_room(1, d);
  const int64_t chunk = std::max(kMinRows, (rows + kColumnChunks - 1) / kColumnChunks);
  const int64_t chunks = (rows + chunk - 1) / chunk;
  need_scratch(context, static_cast<size_t>((3 * chunks + threads) * d) * sizeof(M) +
                            static_cast<size_t>(threads * room) * sizeof(uint16_t));
  ArenaScope scope(context.scratch());
  M* partial = context.scratch().allocate_array<M>(3 * chunks * d);  // [3, chunks, d]
  M* all_rows = context.scratch().allocate_array<M>(threads * d);
  uint16_t* all_bits = context.scratch().allocate_array<uint16_t>(threads * room);
  context.pool().for_ranges(rows, chunk, [&](int64_t begin, int64_t end, int thread) {
    const int64_t index = begin / chunk;
    const ColumnSums<M> sums{partial + index * d, partial + (chunks + index) * d,
                             partial + (2 * chunks + index) * d};
    std::fill_n(sums.gamma, d, M{0});
    std::fill_n(sums.beta, d, M{0});
    std::fill_n(sums.bias, d, M{0});
    M* row = all_rows + thread * d;
    for (int64_t r = begin; r < end; ++r) {
      backward_row<T>(args, r, sums, row);
      if (args.d_x) backward_dropout<T>(args, r, sums.bias, all_bits + thread * room, row);
    }
  });
  const auto add_columns = [&](const Tensor& to, const M* from) {
    if (!to) return;
    M* out = to.as<M>();
    for (int64_t k = 0; k < chunks; ++k) {
      const M* part = from + k * d;
#pragma omp simd
      for (int64_t c = 0; c < d; ++c) out[c] += part[c];
    }
  };
  add_columns(args.d_gamma, partial);
  add_columns(args.d_beta, partial + chunks * d);
  add_columns(args.d_bias, partial + 2 * chunks * d);
}

}  // namespace

void layer_norm_forward_cpu(Context& context, const LayerNormForwardArgs& args) {
  dispatch_dtype(args.residual.dtype, [&](auto tag) { forward<decltype(tag)>(context, args); });
}

void layer_norm_backward_cpu(Context& context, const LayerNormBackwardArgs& args) {
  dispatch_dtype(args.d_y.dtype, [&](auto tag) { backward<decltype(tag)>(context, args); });
}

}  // namespace ventris
