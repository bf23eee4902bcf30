// SPDX-License-Identifier: Apache-2.0
#include "backend/strip_gemm_cpu.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "backend/block_sums_cpu.h"
#include "backend/cache_size.h"
#include "backend/gemm_cache.h"
#include "backend/packed_layout_cpu.h"
#include "backend/panel_tasks_cpu.h"
#include "backend/simd_cpu.h"
#include "backend/split.h"

// A gradient of weights sums over tokens, which are rows of both factors: neither a column of the first nor
// the columns of a panel of the second lie together. Some columns of the first factor are copied into strips
// for all panels, and each panel into the L1 cache just before its use, which costs less than to pack it in
// the shared cache and to read it from there. Where the second factor is narrow and the rows of the first lie
// apart as is_in_place() asks, only the second is copied.
namespace ventris {
namespace {

// Columns of a strip: those of a block.
constexpr int64_t kStrip = kBlockRows;
// Strips of different columns begin in different sets of the L1 cache: a row is written to all of them.
constexpr int64_t kApart = kOfLine<float>;
// Rows of a panel that are copied at a time.
constexpr int64_t kPanelRows = kVectorBytes == 64 ? 128 : 256;
// The last columns of c, whose panels fetch what is copied next: each of them a sixth.
constexpr int64_t kFetchingColumns = 7 * kPackedPanel;
// Columns of the first factor that are copied at a time; with kPanelRows rows they stay in the L2 cache.
constexpr int64_t kColumns = 86 * kStrip;
// Columns of a second factor that are packed for a product in place, at most.
constexpr int64_t kMostPackedColumns = kVectorBytes == 64 ? 512 : 256;

constexpr int64_t strip_size(int64_t depth) {
  return kStrip * depth + kApart;
}

// What is written to a row of a strip at a time, whole vectors; the next row overwrites what is too much.
constexpr int64_t kWritten = 8;
static_assert(kWritten >= kStrip && kWritten - kStrip <= kApart);
// Rows that are written to a strip before the next strip, and columns that are whole strips and whole lines.
constexpr int64_t kRowsTogether = 4;
constexpr int64_t kColumnsTogether = 48;
static_assert(kColumnsTogether % kStrip == 0 && kColumnsTogether % kOfLine<float> == 0);

/// Copies columns [begin, end) of kRows rows, of `cols`, to strips of `size` elements; `to` is the first row
/// in the first of them.
template <int kRows, typename T>
[[gnu::always_inline]] inline void copy_rows_to_strips(const T* from, int64_t stride, int64_t begin,
                                                       int64_t end, int64_t cols, float* to, int64_t size) {
  for (int64_t column = begin; column < end; column += kStrip, to += size) {
    if (column + kWritten <= cols) {
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const T* const row = from + r * stride + column;
#pragma omp simd
        for (int64_t i = 0; i < kWritten; ++i) to[r * kStrip + i] = load(row[i]);
      }
    } else {
      for (int r = 0; r < kRows; ++r) {
        for (int64_t i = 0; i < std::min(kStrip, cols - column); ++i)
          to[r * kStrip + i] = load(from[r * stride + column + i]);
      }
    }
  }
}

/// Cuts a [depth, at most kColumns] into strips [depth, kStrip], one after another.
template <typename T>
void copy_to_strips(const ConstTensor& a, float* strips) {
  const int64_t size = strip_size(a.rows);
  for (int64_t k = 0; k < a.rows; k += kRowsTogether) {
    const T* const from = a.row<T>(k);
    const int64_t rows = std::min(kRowsTogether, a.rows - k);
    for (int64_t column = 0; column < a.cols; column += kColumnsTogether) {
      for (int64_t r = kRowsTogether; r < 2 * kRowsTogether; ++r) {
        for (int64_t i = 0; i < kColumnsTogether; i += kOfLine<T>)
          __builtin_prefetch(from + r * a.stride + column + i);
      }
      const int64_t end = std::min(a.cols, column + kColumnsTogether);
      float* const to = strips + column / kStrip * size + k * kStrip;
      if (rows == kRowsTogether) {
        copy_rows_to_strips<kRowsTogether>(from, a.stride, column, end, a.cols, to, size);
      } else {
        for (int64_t r = 0; r < rows; ++r)
          copy_rows_to_strips<1>(from + r * a.stride, a.stride, column, end, a.cols, to + r * kStrip, size);
      }
    }
  }
}

/// Fetches a matrix into the L2 cache, line by line, and then what follows it in memory.
class LinesAhead {
 public:
  explicit LinesAhead(const ConstTensor& x)
      : row_(static_cast<const char*>(x.data)),
        width_(x.cols * static_cast<int64_t>(size_of(x.dtype))),
        stride_(x.stride * static_cast<int64_t>(size_of(x.dtype))) {}

  /// Before this, fetch() fetches the first line only.
  void start() { step_ = kOfLine<char>; }

  // Inlined early: the compiler takes a function that only fetches for one without effects, and drops calls.
  [[gnu::always_inline]] inline void fetch() {
    __builtin_prefetch(row_ + offset_, 0, 2);
    offset_ += step_;
    if (offset_ < width_) return;
    offset_ = 0;
    row_ += stride_;
  }

 private:
  const char* row_;
  int64_t width_;   // of a row, in bytes
  int64_t stride_;  // in bytes
  int64_t offset_ = 0;
  int64_t step_ = 0;
};

/// c (+)= the columns of a in `strips`, transposed, times b [depth, columns of c] of T.
template <typename T>
class StripProduct {
 public:
  /// `next` is what the next strips are copied from.
  StripProduct(const float* strips, const ConstTensor& b, const Tensor& c, bool accumulate,
               const ConstTensor& next)
      : strips_(strips), b_(b), c_(c), accumulate_(accumulate), next_(next) {}

  void run() {
    const int64_t blocks = (c_.rows + kStrip - 1) / kStrip;
    for (column_ = 0; column_ < c_.cols; column_ += kPackedPanel) {
      columns_ = std::min(kPackedPanel, c_.cols - column_);
      copy_panel();
      if (c_.cols - column_ <= kFetchingColumns) next_.start();
      for (int64_t block = 0; block < blocks; ++block) {
        const auto count = static_cast<int>(std::min(kStrip, c_.rows - block * kStrip));
        [&]<int... kLess>(std::integer_sequence<int, kLess...>) {
          static_cast<void>(((count == kLess + 1 && (multiply<kLess + 1>(block), true)) || ...));
        }
        (std::make_integer_sequence<int, kBlockRows>());
      }
    }
  }

 private:
  void copy_panel() {
    for (int64_t k = 0; k < b_.rows; ++k) {
      const T* from = b_.row<T>(k) + column_;
      float* to = panel_ + k * kPackedPanel;
      if (columns_ == kPackedPanel) {
#pragma omp simd
        for (int64_t i = 0; i < kPackedPanel; ++i) to[i] = load(from[i]);
      } else {
        for (int64_t i = 0; i < kPackedPanel; ++i) to[i] = i < columns_ ? load(from[i]) : 0.0F;
      }
    }
  }

  template <int kCount>
  void multiply(int64_t block) {
    float* const c = c_.row<float>(block * kStrip) + column_;
    if (columns_ == kPackedPanel) return multiply<kCount>(block, c, c_.stride);
    float padded[kCount * kPackedPanel] = {};
    if (accumulate_) copy_rows<kCount>(c, c_.stride, padded, kPackedPanel);
    multiply<kCount>(block, padded, kPackedPanel);
    copy_rows<kCount>(padded, kPackedPanel, c, c_.stride);
  }

  template <int kCount>
  [[gnu::always_inline]] inline void multiply(int64_t block, float* c, int64_t stride) {
    fetch_rows_of_c(block + 1);
    Sum sum[kCount][kPanelVectors];
    if (accumulate_) {
      load_sums(c, stride, sum);
    } else {
      each_sum(sum, [](int, int, Sum& value) { value = Sum{}; });
    }
    const float* const a = strips_ + block * strip_size(b_.rows);
    const float* const next_strip = a + strip_size(b_.rows);
    // All blocks together fetch the next panel, which comes from far away.
    const T* far = b_.row<T>(std::min(block * kOfLine<float>, b_.rows - 1)) + column_ + kPackedPanel;
    LinesAhead lines = next_;  // in registers: stores might change its members
    const auto fetch = [&](int64_t k) __attribute__((always_inline)) {
#pragma GCC unroll 8
      for (int64_t i = 0; i < kStrip && kFetchesAhead; ++i) {
        __builtin_prefetch(next_strip + k * kStrip + i * kOfLine<float>);
      }
#pragma GCC unroll 4
      for (int64_t i = 0; i < kPackedPanel; i += kOfLine<T>) __builtin_prefetch(far + i, 0, 2);
      far += b_.stride;
      if constexpr (kFetchesAhead) lines.fetch();
    };
    const auto steps = [&](int64_t k, int64_t count) __attribute__((always_inline)) {
      multiply_steps(count, a + k * kStrip, 1, kStrip, panel_ + k * kPackedPanel, sum);
    };
    in_rounds<kOfLine<float>>(b_.rows, steps, fetch);
    store_sums(sum, c, stride);
    next_ = lines;
  }

  template <int kCount>
  void copy_rows(const float* from, int64_t from_stride, float* to, int64_t to_stride) const {
    for (int i = 0; i < kCount; ++i) {
      std::memcpy(to + i * to_stride, from + i * from_stride, static_cast<size_t>(columns_) * sizeof(float));
    }
  }

  // Inlined early: the compiler takes a function that only fetches for one without effects, and drops calls.
  [[gnu::always_inline]] inline void fetch_rows_of_c(int64_t block) const {
    const int64_t end = std::min(c_.rows, (block + 1) * kStrip);
    for (int64_t row = block * kStrip; row < end; ++row) {
      for (int64_t i = 0; i < kPackedPanel; i += kOfLine<float>)
        __builtin_prefetch(c_.row<float>(row) + column_ + i, 1);
    }
  }

  const float* strips_;
  ConstTensor b_;
  Tensor c_;
  bool accumulate_;
  LinesAhead next_;     // what the next strips are copied from
  int64_t column_ = 0;  // of the panel
  int64_t columns_ = 0;
  alignas(64) float panel_[kPanelRows * kPackedPanel];
};

/// Rows of a that are multiplied in place at a time, measured (docs/results.md). With AVX2 their lines at the
/// columns of a strip stay in the L1 cache beside a panel; wide panels are read from the L2 cache.
int64_t in_place_depth() {
  return level1_cache_bytes() / (kVectorBytes == 64 ? 128 : 256);
}

/// Whether columns of a are multiplied where they are, not in strips: there are many, its rows lie in
/// different sets of the L1 cache, and b is so narrow that copies of a would serve few panels.
bool is_in_place(const ConstTensor& a, const Tensor& c) {
  return a.dtype == DType::kF32 && a.stride % kOfLine<float> == 0 && a.stride / kOfLine<float> % 2 == 1 &&
         c.rows >= kColumns && c.cols <= kMostPackedColumns && c.cols % kPackedPanel == 0;
}

/// c (+)= a^T b for such an a [in_place_depth() or less, rows of c], and b in panels.
class InPlaceProduct {
 public:
  InPlaceProduct(const ConstTensor& a, const float* packed, const Tensor& c, bool accumulate)
      : a_(a), packed_(packed), c_(c), accumulate_(accumulate) {}

  void run() const {
    for (int64_t row = 0; row < c_.rows; row += kStrip) {
      const auto count = static_cast<int>(std::min(kStrip, c_.rows - row));
      [&]<int... kLess>(std::integer_sequence<int, kLess...>) {
        static_cast<void>(((count == kLess + 1 && (multiply<kLess + 1>(row), true)) || ...));
      }
      (std::make_integer_sequence<int, kBlockRows>());
    }
  }

 private:
  template <int kCount>
  void multiply(int64_t row) const {
    const int64_t depth = a_.rows;
    const int64_t stride = a_.stride;
    const int64_t panels = c_.cols / kPackedPanel;
    const float* const a = a_.row<float>(0) + row;
    // All panels together fetch the line of the last element of each row of the next strip: the first one is
    // in the same line, or in one that is here.
    const float* next = a + std::min(2 * kStrip, c_.rows - row) - 1;
    const int64_t rounds = panels * (depth / kOfLine<float>);
    const int64_t each = rounds == 0 ? 0 : (depth + rounds - 1) / rounds;
    int64_t left = depth;
    const auto fetch = [&](int64_t) __attribute__((always_inline)) {
      for (int64_t i = 0; i < each && left > 0; ++i, --left, next += stride) __builtin_prefetch(next);
    };
    for (int64_t panel = 0; panel < panels; ++panel) {
      float* const c = c_.row<float>(row) + panel * kPackedPanel;
      if (row + 2 * kStrip <= c_.rows) fetch_rows_of_c(c + kStrip * c_.stride);
      Sum sum[kCount][kPanelVectors];
      if (accumulate_) {
        load_sums(c, c_.stride, sum);
      } else {
        each_sum(sum, [](int, int, Sum& value) { value = Sum{}; });
      }
      const float* const b = packed_ + panel * depth * kPackedPanel;
      const auto steps = [&](int64_t k, int64_t count) __attribute__((always_inline)) {
        multiply_steps(count, a + k * stride, 1, stride, b + k * kPackedPanel, sum);
      };
      in_rounds<kOfLine<float>>(depth, steps, fetch);
      store_sums(sum, c, c_.stride);
    }
  }

  // Inlined early: the compiler takes a function that only fetches for one without effects, and drops calls.
  [[gnu::always_inline]] inline void fetch_rows_of_c(const float* c) const {
#pragma GCC unroll 8
    for (int64_t i = 0; i < kStrip; ++i) {
      for (int64_t j = 0; j < kPackedPanel; j += kOfLine<float>) __builtin_prefetch(c + i * c_.stride + j, 1);
    }
  }

  const ConstTensor& a_;
  const float* packed_;
  const Tensor& c_;
  bool accumulate_;
};

/// Copies b of T, whole panels, to `to`, panel by panel.
template <typename T>
void pack_panels(const ConstTensor& b, float* to) {
  for (int64_t column = 0; column < b.cols; column += kPackedPanel) {
    for (int64_t k = 0; k < b.rows; ++k, to += kPackedPanel) {
      const T* const from = b.row<T>(k) + column;
#pragma omp simd
      for (int64_t i = 0; i < kPackedPanel; ++i) to[i] = load(from[i]);
    }
  }
}

/// multiply_part() where is_in_place(); `packed` has room for in_place_depth() rows of b.
template <typename B>
void multiply_in_place(const ConstTensor& a, const ConstTensor& b, const Tensor& c, bool accumulate,
                       float* packed) {
  const int64_t steps = in_place_depth();
  for (int64_t k = 0; k < a.rows; k += steps) {
    const int64_t depth = std::min(steps, a.rows - k);
    pack_panels<B>(b.row_range(k, depth), packed);
    InPlaceProduct(a.row_range(k, depth), packed, c, accumulate || k > 0).run();
  }
}

/// The whole sum for some rows and columns of c, on one thread. `work` has room for room_of_part().
template <typename A, typename B>
void multiply_part(const ConstTensor& a, const ConstTensor& b, const Tensor& c, bool accumulate,
                   float* work) {
  if (is_in_place(a, c)) return multiply_in_place<B>(a, b, c, accumulate, work);
  // Some rows of c through all of the depth, so that they stay in the cache.
  for (int64_t row = 0; row < c.rows; row += kColumns) {
    const int64_t rows = std::min(kColumns, c.rows - row);
    for (int64_t k = 0; k < a.rows; k += kPanelRows) {
      const int64_t depth = std::min(kPanelRows, a.rows - k);
      copy_to_strips<A>(a.row_range(k, depth).col_range(row, rows), work);
      const int64_t later = k + depth;
      const ConstTensor next = later < a.rows ? a.row_range(later, a.rows - later).col_range(row, rows)
                               : row + rows < c.rows
                                   ? a.col_range(row + rows, std::min(kColumns, c.rows - row - rows))
                                   : b;
      StripProduct<B>(work, b.row_range(k, depth), c.row_range(row, rows), accumulate || k > 0, next).run();
    }
  }
}

/// Elements of the work memory of a part of c with these rows and columns, or fewer.
int64_t room_of_part(int64_t rows, int64_t columns) {
  return std::max(std::min(kColumns, rows + kStrip) / kStrip * strip_size(kPanelRows),
                  std::min(columns, kMostPackedColumns) * in_place_depth());
}

/// Parts of c, one for each thread: a thread waits for no other before the end, and copies itself what it
/// needs of both factors.
struct Grid {
  int64_t rows = 1;
  int64_t columns = 1;
};

/// That in which the least is copied.
Grid grid_of(const Tensor& c, int64_t threads) {
  const int64_t most_rows = std::min(threads, (c.rows + kStrip - 1) / kStrip);
  const int64_t most_columns = std::min(threads, (c.cols + kPackedPanel - 1) / kPackedPanel);
  Grid best;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int64_t rows = 1; rows <= most_rows; ++rows) {
    const int64_t columns = std::min(most_columns, threads / rows);
    const int64_t copied = columns * c.rows + rows * c.cols;
    // First the most parts, of them the least copies.
    if (rows * columns < best.rows * best.columns) continue;
    if (rows * columns == best.rows * best.columns && copied >= least) continue;
    best = {rows, columns};
    least = copied;
  }
  return best;
}

template <typename A, typename B>
void multiply_all(Context& context, const GemmArgs& args) {
  const Tensor& c = args.c;
  const Grid grid = grid_of(c, context.pool().threads());
  const Split rows{c.rows, kStrip, grid.rows};
  const Split columns{c.cols, kPackedPanel, grid.columns};
  const int64_t room = room_of_part(c.rows, c.cols);
  auto* const work = static_cast<float*>(
      context.gemm_cache().padding(static_cast<size_t>(context.pool().threads() * room) * sizeof(float)));
  context.pool().for_each(grid.rows * grid.columns, [&](int64_t index, int thread) {
    const int64_t i = index / grid.columns;
    const int64_t j = index % grid.columns;
    const int64_t row = rows.begin(i);
    const int64_t column = columns.begin(j);
    multiply_part<A, B>(args.a.col_range(row, rows.length(i)), args.b.col_range(column, columns.length(j)),
                        c.row_range(row, rows.length(i)).col_range(column, columns.length(j)),
                        args.accumulate, work + thread * room);
  });
}

}  // namespace

bool is_for_strips(const GemmArgs& args) {
  return args.transpose_a && !args.transpose_b && args.c.dtype == DType::kF32 && !args.bias && !args.relu;
}

void strip_gemm_cpu(Context& context, const GemmArgs& args) {
  if (args.b.dtype == DType::kF32) return multiply_all<float, float>(context, args);
  args.a.dtype == DType::kF32 ? multiply_all<float, BF16>(context, args)
                              : multiply_all<BF16, BF16>(context, args);
}

}  // namespace ventris
