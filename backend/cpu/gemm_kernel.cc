// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "backend/cpu/fused.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/gemm_panels.h"
#include "backend/cpu/simd.h"

#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

namespace ventris {
namespace {

using Sum = Vector<float>;

constexpr int kPanelVectors = kMaxVectors;
/// Rows whose sums are in registers at a time: with AVX2 twelve of 16.
constexpr int kBlockRows = 6;

/// Calls steps(k, count) for [0, depth) in order, kRound at a time, and before each whole round fetch(k), to
/// fetch what comes after the product: hardware foresees neither the rows of the next one nor its results.
template <int64_t kRound, typename Steps, typename Fetch>
[[gnu::always_inline]] inline void in_rounds(int64_t depth, Steps&& steps, Fetch&& fetch) {
  int64_t k = 0;
  for (; k + kRound <= depth; k += kRound) {
    fetch(k);
    steps(k, kRound);
  }
  if (k < depth) steps(k, depth - k);
}

/// Calls body(row, vector, sum).
template <int kCount, typename S, typename Body>
[[gnu::always_inline]] inline void each_sum(S (&sum)[kCount][kPanelVectors], Body&& body) {
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kPanelVectors; ++v) body(i, v, sum[i][v]);
  }
}

template <int kCount>
[[gnu::always_inline]] inline void load_sums(const float* from, int64_t stride,
                                             Sum (&sum)[kCount][kPanelVectors]) {
  each_sum(sum,
           [&](int i, int v, Sum& value) { value = load_vector(from + i * stride + v * kLanes<float>); });
}

template <int kCount>
[[gnu::always_inline]] inline void store_sums(const Sum (&sum)[kCount][kPanelVectors], float* to,
                                              int64_t stride) {
  each_sum(sum,
           [&](int i, int v, const Sum& value) { store_vector(to + i * stride + v * kLanes<float>, value); });
}

/// sum[i] += row i of a times `depth` rows of the panel b, in order of depth.
template <int kCount>
[[gnu::always_inline]] inline void multiply_steps(int64_t depth, const float* a, int64_t row_step,
                                                  const float* b, Sum (&sum)[kCount][kPanelVectors]) {
  constexpr int64_t kPanel = kPanelVectors * kLanes<float>;
  // Where two threads share a core its instructions are the limit, not its multipliers.
#pragma GCC unroll 4
  for (int64_t k = 0; k < depth; ++k) {
    Sum row[kPanelVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kPanelVectors; ++v) row[v] = load_vector(b + k * kPanel + v * kLanes<float>);
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      const Sum factor = in_all_lanes(a[i * row_step + k]);
#pragma GCC unroll 4
      for (int v = 0; v < kPanelVectors; ++v) sum[i][v] = fused(factor, row[v], sum[i][v]);
    }
  }
}

// Maximum rows of a task: each row of a panel is read once for all of them, and their partial sums stay in
// the L1 cache.
constexpr int64_t kMaxTaskRows = kVectorBytes == 64 ? 48 : 192;
// Rows of a panel that a task multiplies at a time: with two blocks of rows they take most of an L1 cache of
// 32 KiB.
constexpr int64_t kPanelRows = kVectorBytes == 64 ? 128 : 256;

/// Two elements of a row of a, or one and a zero.
inline int32_t pair_at(const BF16* a, int64_t count) {
  int32_t pair = 0;
  if (count >= 2) {
    std::memcpy(&pair, a, 4);
  } else {
    pair = a->bits;
  }
  return pair;
}

using Pairs = VectorOf<float>::index;

/// sum + x[0] * y[0] + x[1] * y[1] in each lane, x the same in all lanes.
[[gnu::always_inline]] inline Sum multiply_pair(Sum sum, int32_t x, Pairs y) {
#if defined(__AVX512BF16__)
  const __m512i factors = _mm512_set1_epi32(x);
  return (Sum)_mm512_dpbf16_ps((__m512)sum, (__m512bh)factors, (__m512bh)y);
#else
  const auto high = static_cast<int32_t>(0xFFFF0000U);
  const auto first = std::bit_cast<float>(static_cast<int32_t>(static_cast<uint32_t>(x) << 16));
  const auto second = std::bit_cast<float>(x & high);
  sum = fused(in_all_lanes(first), std::bit_cast<Sum>(y << 16), sum);
  return fused(in_all_lanes(second), std::bit_cast<Sum>(y & high), sum);
#endif
}

template <int kCount>
[[gnu::always_inline]] inline void multiply_pairs(int64_t depth, const BF16* a, int64_t row_step,
                                                  const BF16* b, Sum (&sum)[kCount][kPanelVectors]) {
  const auto step = [&](int64_t k, int64_t count) __attribute__((always_inline)) {
    Pairs row[kPanelVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kPanelVectors; ++v) {
      std::memcpy(&row[v], b + k * kPackedPanel + v * 2 * kLanes<float>, sizeof(Pairs));
    }
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      const int32_t pair = pair_at(a + i * row_step + k, count);
#pragma GCC unroll 4
      for (int v = 0; v < kPanelVectors; ++v) sum[i][v] = multiply_pair(sum[i][v], pair, row[v]);
    }
  };
  int64_t k = 0;
  for (; k + 2 <= depth; k += 2) step(k, 2);
  if (k < depth) step(k, 1);
}

/// What a block fetches: the rows of the next one, or what comes after this part of the panel
/// (is_to_fetch()).
enum class Fetch { kNothing, kRows, kPanel };

/// One panel for some rows.
template <typename T, typename C>
class Task {
 public:
  Task(const PackedGemmArgs& args, int64_t row, int64_t rows, int64_t panel)
      : args_(args),
        depth_(args.b.rows),
        row_(row),
        rows_(rows),
        column_(panel * kPackedPanel),
        columns_(std::min(kPackedPanel, args.c.cols - column_)),
        b_(static_cast<const T*>(args.b.data) + panel * packed_panel_size<T>(depth_)) {
    if (!args.bias) return;
    bias_ = args.bias.template as<float>() + column_;
    if (columns_ == kPackedPanel) return;
    std::fill(std::copy_n(bias_, columns_, padded_bias_), padded_bias_ + kPackedPanel, 0.0F);
    bias_ = padded_bias_;
  }

  void run() {
    const int64_t blocks = (rows_ + kBlockRows - 1) / kBlockRows;
    const int64_t step = blocks == 1 ? depth_ : kPanelRows;
    // The first blocks have one row more than the others.
    const int64_t least = rows_ / blocks;
    const int64_t longer = rows_ % blocks;
    if (args_.accumulate && !in_registers()) begin_with_c();
    int64_t begin = 0;
    do {  // at least once: without depth the sums are zero
      const int64_t end = std::min(depth_, begin + step);
      for (int64_t block = 0, first = 0; block < blocks; ++block) {
        const auto count = static_cast<int>(least + (block < longer ? 1 : 0));
        if (blocks == 1 || !kFetchesAhead) {
          block_of<Fetch::kNothing>(count, first, begin, end);
        } else if (is_to_fetch(block, blocks)) {
          block_of<Fetch::kPanel>(count, first, begin, end);
        } else {
          block_of<Fetch::kRows>(count, first, begin, end);
        }
        first += count;
      }
      begin = end;
    } while (begin < depth_);
  }

 private:
  /// Whether sums are read from c and written to it in whole vectors, not by way of `partial_`.
  bool in_registers() const { return std::is_same_v<C, float> && columns_ == kPackedPanel; }

  void begin_with_c() {
    for (int64_t i = 0; i < rows_; ++i) {
      const C* c = args_.c.row<C>(row_ + i) + column_;
      for (int64_t j = 0; j < columns_; ++j) partial_[i * kPackedPanel + j] = load(c[j]);
    }
  }

  template <Fetch kFetch>
  void block_of(int count, int64_t first, int64_t begin, int64_t end) {
    [&]<int... kLess>(std::integer_sequence<int, kLess...>) {
      static_cast<void>(((count == kLess + 1 && (block<kFetch, kLess + 1>(first, begin, end), true)) || ...));
    }
    (std::make_integer_sequence<int, kBlockRows>());
  }

  template <Fetch kFetch, int kCount>
  void block(int64_t first, int64_t begin, int64_t end) {
    // Found once: the compiler cannot know that stores to it change neither its address nor its stride.
    C* const to = args_.c.row<C>(row_ + first) + column_;
    const int64_t c_stride = args_.c.stride;
    // The rows of c of the next block: each is a line of its own, and hardware does not foresee them.
    if (in_registers() ? begin == 0 : end == depth_) {
#pragma GCC unroll 8
      for (int i = 0; i < kCount; ++i) {
        for (int64_t j = 0; j < kPackedPanel; j += kOfLine<C>)
          __builtin_prefetch(to + (kCount + i) * c_stride + j, 1);
      }
    }
    float* const c = reinterpret_cast<float*>(to);  // only if sums are read and written in whole vectors
    Sum sum[kCount][kPanelVectors];
    float* const partial = partial_ + first * kPackedPanel;
    if (begin == 0 && !args_.accumulate) {
      each_sum(sum, [](int, int, Sum& value) { value = Sum{}; });
    } else if (begin == 0 && in_registers()) {
      load_sums(c, c_stride, sum);
    } else {
      load_sums(partial, kPackedPanel, sum);
    }
    const T* const a = args_.a.row<T>(row_ + first) + begin;
    const int64_t stride = args_.a.stride;
    const auto multiply = [&](int64_t k, int64_t steps) __attribute__((always_inline)) {
      const T* const panel = b_ + (begin + k) * kPackedPanel;
      if constexpr (std::is_same_v<T, float>) {
        multiply_steps(steps, a + k, stride, panel, sum);
      } else {
        multiply_pairs(steps, a + k, stride, panel, sum);
      }
    };
    if constexpr (kFetch == Fetch::kRows) {
      in_rounds<kOfLine<T>>(
          end - begin, multiply, [&](int64_t k) __attribute__((always_inline)) {
#pragma GCC unroll 8
            for (int i = 0; i < kCount; ++i) __builtin_prefetch(a + (kCount + i) * stride + k);
          });
    } else if constexpr (kFetch == Fetch::kPanel) {
      // Not many lines at a time: the panel itself waits behind them.
      constexpr int64_t kSteps = kOfLine<T> / 4;
      const T* const next = b_ + end * kPackedPanel;
      in_rounds<kSteps>(
          end - begin, multiply, [&](int64_t k) __attribute__((always_inline)) {
#pragma GCC unroll 16
            for (int64_t i = 0; i < kSteps * kPackedPanel; i += kOfLine<T>)
              __builtin_prefetch(next + k * kPackedPanel + i);
          });
    } else {
      multiply(0, end - begin);
    }
    const bool last = end == depth_;
    if (last) add_bias(sum);
    if (last && in_registers()) return store_sums(sum, c, c_stride);
    store_sums(sum, partial, kPackedPanel);
    if (last) write<kCount>(partial, to, c_stride);
  }

  template <int kCount>
  [[gnu::always_inline]] inline void add_bias(Sum (&sum)[kCount][kPanelVectors]) const {
    if (bias_ != nullptr) {
      const float* const bias = bias_;
      each_sum(sum, [&](int, int v, Sum& value) { value += load_vector(bias + v * kLanes<float>); });
    }
    if (args_.relu) each_sum(sum, [](int, int, Sum& value) { value = value < 0.0F ? Sum{} : value; });
  }

  template <int kCount>
  [[gnu::always_inline]] inline void write(const float* sums, C* to, int64_t stride) const {
    if (columns_ == kPackedPanel) {
      for (int i = 0; i < kCount; ++i) {
#pragma omp simd
        for (int64_t j = 0; j < kPackedPanel; ++j) store(to[i * stride + j], sums[i * kPackedPanel + j]);
      }
    } else {
      for (int i = 0; i < kCount; ++i) {
        for (int64_t j = 0; j < columns_; ++j) store(to[i * stride + j], sums[i * kPackedPanel + j]);
      }
    }
  }

  const PackedGemmArgs& args_;
  int64_t depth_;
  int64_t row_;
  int64_t rows_;
  int64_t column_;
  int64_t columns_;
  const T* b_;
  const float* bias_ = nullptr;  // of all columns of the panel
  float padded_bias_[kPackedPanel];
  alignas(64) float partial_[kMaxTaskRows * kPackedPanel];
};

/// Whether a product takes less time than waking another thread: it costs a multiply-add for each element of
/// a vector, but at least the reading of b.
bool is_small(int64_t m, int64_t n, int64_t k) {
  constexpr int64_t kMultiplyAdds = int64_t{1} << 19;
  return n * k * std::max<int64_t>(m, 8) < kMultiplyAdds;
}

template <typename T, typename C>
void multiply_all(Context& context, const PackedGemmArgs& args) {
  const int64_t m = args.a.rows;
  const int64_t panels = (args.b.cols + kPackedPanel - 1) / kPackedPanel;
  for_panels<kBlockRows>(
      context, m, panels, kMaxTaskRows, is_small(m, args.b.cols, args.b.rows),
      [&](int64_t row, int64_t rows, int64_t panel) { Task<T, C>(args, row, rows, panel).run(); });
}

}  // namespace

void packed_gemm_cpu(Context& context, const PackedGemmArgs& args) {
  if (args.b.packing == Packing::kInt8) return int8_gemm(context, args);
  if (args.a.rows == 0 || args.b.cols == 0) return;
  const bool full = args.c.dtype == DType::kF32;
  if (args.b.packing == Packing::kF32)
    return full ? multiply_all<float, float>(context, args) : multiply_all<float, BF16>(context, args);
  full ? multiply_all<BF16, float>(context, args) : multiply_all<BF16, BF16>(context, args);
}

}  // namespace ventris
