#include "backend/packed_gemm_cpu.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "backend/instruction_set.h"
#include "backend/packed_layout_cpu.h"
#include "backend/panel_tasks_cpu.h"
#include "backend/simd_cpu.h"
#include "backend/small_matmul_cpu.h"

#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

namespace ventris {
namespace {

using Sum = Vector<float>;

constexpr int kVectors = kMaxVectors;
// Rows whose sums are in registers at a time: with AVX2 twelve of 16.
constexpr int kRows = 6;
// Columns of a strip of a transposed factor.
constexpr int64_t kStripRows = 8 * kRows;
// Maximum rows of a task: each row of a panel is read once for all of them, and their partial sums stay in
// the L1 cache.
constexpr int64_t kMaxTaskRows = kVectorBytes == 64 ? kStripRows : 5 * kStripRows;

constexpr int64_t kLine = 64;  // bytes
constexpr int kVectorsOfLine = kLine / kVectorBytes;

/// Maximum rows of a task with `depth` columns: few columns of few rows stay in the L1 cache from panel to
/// panel.
constexpr int64_t task_rows(int64_t depth) {
  constexpr int64_t kFew = 128;
  return depth <= kFew ? kStripRows : kMaxTaskRows;
}

/// Rows of a panel that a task multiplies at a time: with AVX2 two thirds of an L1 cache of 48 KiB, half of
/// one of 32, and of both if a strip takes as many lines of the cache as the panel.
template <bool kStrip>
int64_t panel_rows() {
  constexpr int64_t kLargeCache = 48 * 1024;
  if constexpr (kVectorBytes == 64) return 128;
  if constexpr (kStrip) return 256;
  static const int64_t rows = l1_data_cache_bytes() >= kLargeCache ? 512 : 256;
  return rows;
}

/// sum[i] += row i of a times `depth` rows of the panel b. `kFetch`: see kFetchesAhead.
template <bool kFetch, int kCount>
[[gnu::always_inline]] inline void multiply(int64_t depth, const float* a, int64_t row_step,
                                            int64_t depth_step, const float* b,
                                            Sum (&sum)[kCount][kVectors]) {
  // Where two threads share a core its instructions are the limit, not its multipliers.
#pragma GCC unroll 4
  for (int64_t k = 0; k < depth; ++k) {
    Sum row[kVectors];
    if constexpr (kFetch) __builtin_prefetch(b + (depth + k) * kPackedPanel);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) row[v] = load_vector(b + k * kPackedPanel + v * kLanes<float>);
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      const Sum factor = in_all_lanes(a[i * row_step + k * depth_step]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[i][v] = fused(factor, row[v], sum[i][v]);
    }
  }
}

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

template <bool kFetch, int kCount>
[[gnu::always_inline]] inline void multiply(int64_t depth, const BF16* a, int64_t row_step,
                                            int64_t /*depth_step: 1*/, const BF16* b,
                                            Sum (&sum)[kCount][kVectors]) {
  const auto step = [&](int64_t k, int64_t count) __attribute__((always_inline)) {
    Pairs row[kVectors];
    if constexpr (kFetch) __builtin_prefetch(b + (depth + k) * kPackedPanel);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      std::memcpy(&row[v], b + k * kPackedPanel + v * 2 * kLanes<float>, sizeof(Pairs));
    }
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      const int32_t pair = pair_at(a + i * row_step + k, count);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[i][v] = multiply_pair(sum[i][v], pair, row[v]);
    }
  };
  int64_t k = 0;
  for (; k + 2 <= depth; k += 2) step(k, 2);
  if (k < depth) step(k, 1);
}

/// The rows of a task: of a matrix, or of strips one after another.
template <typename T, bool kStrip>
struct Factor {
  const T* data;
  int64_t stride;  // of rows, or with kStrip of strips

  int64_t row_step() const { return kStrip ? 1 : stride; }
  int64_t depth_step() const { return kStrip ? kStripRows : 1; }
  const T* at(int64_t row, int64_t depth) const {
    if constexpr (kStrip) return data + row / kStripRows * stride + row % kStripRows + depth * kStripRows;
    return data + row * stride + depth;
  }
};

/// One panel for some rows.
template <typename T, typename C, bool kStrip = false>
class Task {
 public:
  Task(const PackedGemmArgs& args, Factor<T, kStrip> a, int64_t row, int64_t rows, int64_t panel)
      : args_(args),
        a_(a),
        depth_(args.b.rows),
        row_(row),
        rows_(rows),
        column_(panel * kPackedPanel),
        columns_(std::min(kPackedPanel, args.c.cols - column_)),
        b_(static_cast<const T*>(args.b.data) + panel * packed_panel_size<T>(depth_)) {}

  void run() {
    const int64_t blocks = (rows_ + kRows - 1) / kRows;
    const int64_t step = blocks == 1 ? depth_ : panel_rows<kStrip>();
    // No block has rows of two strips; otherwise all have the same number of rows, or one less.
    const auto begin_of = [&](int64_t block) {
      return kStrip ? std::min(block * kRows, rows_) : rows_ * block / blocks;
    };
    if (args_.accumulate && !in_registers()) begin_with_c();
    int64_t begin = 0;
    do {  // at least once: without depth the sums are zero
      const int64_t end = std::min(depth_, begin + step);
      for (int64_t block = 0; block < blocks; ++block) {
        const int64_t first = begin_of(block);
        const auto count = static_cast<int>(begin_of(block + 1) - first);
        if (begin == 0 && in_registers()) fetch_c(first + count, std::min(rows_, first + count + kRows));
        if (is_to_fetch(block, blocks)) {
          block_of<true>(count, first, begin, end);
        } else {
          block_of<false>(count, first, begin, end);
        }
      }
      begin = end;
    } while (begin < depth_);
  }

 private:
  /// Whether sums are read from c and written to it in whole vectors, not by way of `partial_`.
  bool in_registers() const { return std::is_same_v<C, float> && columns_ == kPackedPanel; }

  /// Rows of c that are read or written after another block: each is a line of its own, and hardware does not
  /// foresee them.
  void fetch_c(int64_t first, int64_t end) const {
    for (int64_t row = first; row < end; ++row) {
      for (int v = 0; v < kVectors; v += kVectorsOfLine) __builtin_prefetch(c_at(row, v), 1);
    }
  }

  void begin_with_c() {
    for (int64_t i = 0; i < rows_; ++i) {
      const C* c = args_.c.row<C>(row_ + i) + column_;
      for (int64_t j = 0; j < columns_; ++j) partial_[i * kPackedPanel + j] = load(c[j]);
    }
  }

  template <bool kFetch>
  void block_of(int count, int64_t first, int64_t begin, int64_t end) {
    [&]<int... kLess>(std::integer_sequence<int, kLess...>) {
      static_cast<void>(((count == kLess + 1 && (block<kFetch, kLess + 1>(first, begin, end), true)) || ...));
    }
    (std::make_integer_sequence<int, kRows>());
  }

  template <bool kFetch, int kCount>
  void block(int64_t first, int64_t begin, int64_t end) {
    Sum sum[kCount][kVectors];
    float* const partial = partial_ + first * kPackedPanel;
    if (begin == 0 && !args_.accumulate) {
      each(sum, [](int, int, Sum& value) { value = Sum{}; });
    } else if (begin == 0 && in_registers()) {
      each(sum, [&](int i, int v, Sum& value) { value = load_vector(c_at(first + i, v)); });
    } else {
      each(sum, [&](int i, int v, Sum& value) {
        value = load_vector(partial + i * kPackedPanel + v * kLanes<float>);
      });
    }
    multiply<kFetch>(end - begin, a_.at(first, begin), a_.row_step(), a_.depth_step(),
                     b_ + begin * kPackedPanel, sum);
    if (end == depth_ && in_registers()) return finish(sum, first);
    each(sum, [&](int i, int v, Sum& value) {
      store_vector(partial + i * kPackedPanel + v * kLanes<float>, value);
    });
    if (end < depth_) return;
    for (int i = 0; i < kCount; ++i) finish(partial + i * kPackedPanel, row_ + first + i);
  }

  /// Calls body(row, vector, sum).
  template <int kCount, typename Body>
  [[gnu::always_inline]] static inline void each(Sum (&sum)[kCount][kVectors], Body&& body) {
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) body(i, v, sum[i][v]);
    }
  }

  float* c_at(int64_t row, int vector) const {
    return reinterpret_cast<float*>(args_.c.row<C>(row_ + row)) + column_ + vector * kLanes<float>;
  }

  template <int kCount>
  [[gnu::always_inline]] inline void finish(Sum (&sum)[kCount][kVectors], int64_t first) const {
    if (args_.bias) {
      const float* bias = args_.bias.template as<float>() + column_;
      each(sum, [&](int, int v, Sum& value) { value += load_vector(bias + v * kLanes<float>); });
    }
    if (args_.relu) each(sum, [](int, int, Sum& value) { value = value < 0.0F ? Sum{} : value; });
    each(sum, [&](int i, int v, Sum& value) { store_vector(c_at(first + i, v), value); });
  }

  void finish(const float* sums, int64_t row) const {
    const float* bias = args_.bias ? args_.bias.as<float>() + column_ : nullptr;
    C* c = args_.c.row<C>(row) + column_;
    if (bias != nullptr && args_.relu) {
      write(columns_, c, [&](int64_t j) { return std::max(sums[j] + bias[j], 0.0F); });
    } else if (args_.relu) {
      write(columns_, c, [&](int64_t j) { return std::max(sums[j], 0.0F); });
    } else if (bias != nullptr) {
      write(columns_, c, [&](int64_t j) { return sums[j] + bias[j]; });
    } else {
      write(columns_, c, [&](int64_t j) { return sums[j]; });
    }
  }

  template <typename Value>
  static void write(int64_t count, C* c, Value&& value) {
    if (count == kPackedPanel) {
#pragma omp simd
      for (int64_t j = 0; j < kPackedPanel; ++j) store(c[j], value(j));
    } else {
#pragma omp simd
      for (int64_t j = 0; j < count; ++j) store(c[j], value(j));
    }
  }

  const PackedGemmArgs& args_;
  Factor<T, kStrip> a_;
  int64_t depth_;
  int64_t row_;
  int64_t rows_;
  int64_t column_;
  int64_t columns_;
  const T* b_;
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
  for_panels<kRows>(context, m, panels, task_rows(args.b.rows), is_small(m, args.b.cols, args.b.rows),
                    [&](int64_t row, int64_t rows, int64_t panel) {
                      Task<T, C>(args, {args.a.row<T>(row), args.a.stride}, row, rows, panel).run();
                    });
}

template <typename T>
void copy_all_to_strips(Context& context, const ConstTensor& a, float* strips) {
  constexpr int64_t kTogether = 64;  // rows of a task
  context.pool().for_ranges(a.rows, kTogether, [&](int64_t begin, int64_t end, int) {
    for (int64_t k = begin; k < end; ++k) {
      const T* from = a.row<T>(k);
      for (int64_t column = 0; column < a.cols; column += kStripRows) {
        float* to = strips + column * a.rows + k * kStripRows;
        for (int64_t i = 0; i < kStripRows; i += kLine / static_cast<int64_t>(sizeof(float))) {
          __builtin_prefetch(from + kFetchedRows * a.stride + column + i);
          __builtin_prefetch(to + kFetchedRows * kStripRows + i, 1);
        }
        const int64_t count = std::min(kStripRows, a.cols - column);
        if (count == kStripRows) {
#pragma omp simd
          for (int64_t i = 0; i < kStripRows; ++i) to[i] = load(from[column + i]);
        } else {
          for (int64_t i = 0; i < count; ++i) to[i] = load(from[column + i]);
        }
      }
    }
  });
}

}  // namespace

int64_t strips_size(int64_t m, int64_t depth) {
  return (m + kStripRows - 1) / kStripRows * kStripRows * depth;
}

void copy_to_strips(Context& context, const ConstTensor& a, float* strips) {
  a.dtype == DType::kF32 ? copy_all_to_strips<float>(context, a, strips)
                         : copy_all_to_strips<BF16>(context, a, strips);
}

void strip_gemm_cpu(Context& context, const float* strips, const PackedGemmArgs& args) {
  const int64_t m = args.c.rows;
  const int64_t depth = args.b.rows;
  const int64_t panels = (args.b.cols + kPackedPanel - 1) / kPackedPanel;
  const int64_t count = (m + kStripRows - 1) / kStripRows;
  for_panels<1>(context, count, panels, kMaxTaskRows / kStripRows, false,
                [&](int64_t strip, int64_t together, int64_t panel) {
                  const int64_t row = strip * kStripRows;
                  Task<float, float, true>(args, {strips + row * depth, kStripRows * depth}, row,
                                           std::min(together * kStripRows, m - row), panel)
                      .run();
                });
}

void packed_gemm_cpu(Context& context, const PackedGemmArgs& args) {
  const bool full = args.c.dtype == DType::kF32;
  if (args.b.packing == Packing::kF32)
    return full ? multiply_all<float, float>(context, args) : multiply_all<float, BF16>(context, args);
  full ? multiply_all<BF16, float>(context, args) : multiply_all<BF16, BF16>(context, args);
}

}  // namespace ventris
