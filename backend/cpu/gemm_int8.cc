// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "backend/cpu/fused.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/gemm_int8_dot.h"
#include "backend/cpu/gemm_onednn.h"
#include "backend/cpu/gemm_panels.h"
#include "backend/cpu/simd.h"
#include "backend/cpu/transpose.h"
#include "backend/device/instruction_set.h"
#include "backend/ops/int8_scale.h"

// The layout of a PackedMatrix of int8. A panel of kPackedPanel columns begins with their scales, f32, and
// the initial values of their sums if a row's integers are 128 too large: -128 times the sum of the column,
// int32. The integers follow, four rows of a column interleaved: [rows / 4, columns, 4], with zeros after
// the last row.
namespace ventris {
namespace {

constexpr int64_t kInt8Step = 4;  // interleaved rows: a sum takes four products at a time
constexpr int64_t kInt8Head = 2 * kPackedPanel * static_cast<int64_t>(sizeof(float));

/// Groups of four rows.
constexpr int64_t int8_groups(int64_t rows) {
  return (rows + kInt8Step - 1) / kInt8Step;
}

class Int8Panel {
 public:
  static constexpr int64_t bytes(int64_t rows) {
    return kInt8Head + int8_groups(rows) * kInt8Step * kPackedPanel;
  }

  Int8Panel(const PackedMatrix& packed, int64_t panel)
      : data_(static_cast<char*>(packed.data) + panel * bytes(packed.rows)) {}

  float* scales() const { return reinterpret_cast<float*>(data_); }
  int32_t* starts() const { return reinterpret_cast<int32_t*>(data_) + kPackedPanel; }
  /// Of all columns, the rows [4 * group, 4 * group + 4).
  int8_t* group(int64_t group) const {
    return reinterpret_cast<int8_t*>(data_ + kInt8Head) + group * kInt8Step * kPackedPanel;
  }

 private:
  char* data_;
};

constexpr int64_t kPackedRows = 64;  // rows of a panel in a block; a multiple of four
constexpr int32_t kInfinity = 0x7F800000;

/// Packs some columns of one panel.
class PanelPacker {
 public:
  PanelPacker(const PackArgs& args, int64_t panel)
      : args_(args),
        panel_(args.to, panel),
        first_(panel * kPackedPanel),
        begin_(std::max(args.first_column, first_) - first_),
        end_(std::min(args.first_column + (args.transpose ? args.source.rows : args.source.cols),
                      first_ + kPackedPanel) -
             first_) {}

  void run() {
    std::array<int32_t, kPackedPanel> largest{};  // |x| as bits, which have the order of the numbers
    for (int64_t k = 0; k < args_.to.rows; k += kPackedRows) {
      const int64_t rows = take(k);
      for (int64_t r = 0; r < rows; ++r) {
#pragma omp simd
        for (int64_t c = 0; c < kPackedPanel; ++c) {
          largest[static_cast<size_t>(c)] = std::max(largest[static_cast<size_t>(c)], magnitude(r, c));
        }
      }
    }
    std::array<float, kPackedPanel> inverse{};
    for (int64_t c = begin_; c < end_; ++c) {
      const int32_t max = largest[static_cast<size_t>(c)];
      finite_[static_cast<size_t>(c)] = max < kInfinity ? -1 : 0;
      const float scale =
          max < kInfinity ? int8_scale(std::bit_cast<float>(max)) : std::numeric_limits<float>::quiet_NaN();
      panel_.scales()[c] = scale;
      inverse[static_cast<size_t>(c)] = int8_inverse(scale);
    }
    for (int64_t k = 0; k < args_.to.rows; k += kPackedRows) {
      const int64_t rows = take(k);
      for (int64_t r = 0; r < rows; r += kInt8Step) put(k + r, r, std::min(rows - r, kInt8Step), inverse);
    }
    for (int64_t c = begin_; c < end_; ++c) panel_.starts()[c] = -128 * sums_[static_cast<size_t>(c)];
  }

 private:
  /// Reads rows of the panel from k on into block_; returns their number.
  int64_t take(int64_t k) {
    const int64_t rows = std::min(kPackedRows, args_.to.rows - k);
    const int64_t from = first_ + begin_ - args_.first_column;
    float* to = block_.data() + begin_;
    if (args_.transpose) {
      transpose(args_.source.row<float>(from) + k, args_.source.stride, to, kPackedPanel, rows,
                end_ - begin_);
    } else {
      for (int64_t r = 0; r < rows; ++r) {
        std::memcpy(to + r * kPackedPanel, args_.source.row<float>(k + r) + from,
                    static_cast<size_t>(end_ - begin_) * sizeof(float));
      }
    }
    return rows;
  }

  float at(int64_t row, int64_t column) const {
    return block_[static_cast<size_t>(row * kPackedPanel + column)];
  }
  int32_t magnitude(int64_t row, int64_t column) const {
    return std::bit_cast<int32_t>(at(row, column)) & std::numeric_limits<int32_t>::max();
  }

  /// `count` rows of the block, from `row` on, as the group of four from k on.
  void put(int64_t k, int64_t row, int64_t count, const std::array<float, kPackedPanel>& inverse) {
    std::array<uint32_t, kPackedPanel> words{};
    for (int64_t r = 0; r < count; ++r) {
      for (int64_t c = begin_; c < end_; ++c) {
        const auto place = static_cast<size_t>(c);
        const int q = finite_[place] != 0 ? int8_quantized(at(row + r, c), inverse[place]) : 0;
        sums_[place] += q;
        words[place] |= (static_cast<uint32_t>(q) & 0xFFU) << (8 * r);
      }
    }
    std::memcpy(panel_.group(k / kInt8Step) + begin_ * kInt8Step, words.data() + begin_,
                static_cast<size_t>(end_ - begin_) * sizeof(uint32_t));
  }

  const PackArgs& args_;
  Int8Panel panel_;
  int64_t first_;  // column of the matrix
  int64_t begin_;  // columns of the panel that are packed: [begin_, end_)
  int64_t end_;
  std::array<int32_t, kPackedPanel> finite_{};
  std::array<int32_t, kPackedPanel> sums_{};
  alignas(64) std::array<float, kPackedRows * kPackedPanel> block_{};
};

using Numbers = Vector<float>;

constexpr int kVectors = kMaxVectors;
constexpr int kRows = 6;                   // whose sums are in registers at a time
constexpr int64_t kTaskRows = 16 * kRows;  // maximum rows of a task
constexpr int64_t kDepth = 128;            // groups of a panel that a task multiplies at a time
constexpr int64_t kAlignment = 64;

/// The rows of a as integers.
struct Rows {
  const int8_t* data;   // [rows, stride], with VNNI plus 128, unsigned
  int64_t magnitudes;   // offset of a row's magnitudes in bytes, if needed
  int64_t stride;       // bytes
  const float* scales;  // [rows]

  const int8_t* row(int64_t i) const { return data + i * stride; }
};

/// to[i] = x[i] as an integer, plus 128 with `kVnni`; returns the scale.
template <bool kVnni>
float quantise(const float* x, int64_t count, int8_t* to) {
  constexpr int32_t kMagnitude = std::numeric_limits<int32_t>::max();
  constexpr int32_t kFlip = kVnni ? 0x80 : 0;
  int32_t largest = 0;  // of |x| as bits, which have the order of the numbers
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < count; ++i) {
    const int32_t magnitude = std::bit_cast<int32_t>(x[i]) & kMagnitude;
    largest = magnitude > largest ? magnitude : largest;
  }
  if (largest >= kInfinity) {
    std::memset(to, kFlip, static_cast<size_t>(count));
    return std::numeric_limits<float>::quiet_NaN();
  }
  const float scale = int8_scale(std::bit_cast<float>(largest));
  const float inverse = int8_inverse(scale);
  // int8_quantized(), whose bounds are always satisfied here; the sum has the integer in its low bits.
  constexpr float kRound = 12582912.0F;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    to[i] = static_cast<int8_t>(std::bit_cast<int32_t>(x[i] * inverse + kRound) ^ kFlip);
  }
  return scale;
}

/// sum[i] += row i of a, `rows` rows or the remainder, times `groups` groups of the panel b. `kFetch`: see
/// kFetchesAhead.
template <bool kVnni, bool kFetch, int kCount>
[[gnu::always_inline]] inline void multiply(int64_t groups, const Rows& rows, const int8_t* a,
                                            const int8_t* b, Int8Sums (&sum)[kCount][kVectors]) {
  const int64_t a_stride = rows.stride;
  const int8_t* const a_magnitudes = a + rows.magnitudes;
  // Few rows have few dependent sums: several partial sums for each, added at the end, hide their latency.
  constexpr int kChains = std::max(1, 8 / (kCount * kVectors));
  Int8Sums more[kChains][kCount][kVectors] = {};
  const auto step = [&](int64_t group, Int8Sums(&to)[kCount][kVectors]) __attribute__((always_inline)) {
    Int8Sums row[kVectors];
    if constexpr (kFetch) __builtin_prefetch(b + (groups + group) * kInt8Step * kPackedPanel);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      std::memcpy(&row[v], b + group * kInt8Step * kPackedPanel + v * kVectorBytes, sizeof(Int8Sums));
    }
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      int32_t four;
      int32_t magnitudes = 0;
      std::memcpy(&four, a + i * a_stride + group * kInt8Step, sizeof(four));
      if constexpr (!kVnni && kWantsMagnitudes)
        std::memcpy(&magnitudes, a_magnitudes + i * a_stride + group * kInt8Step, sizeof(magnitudes));
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) to[i][v] = add_products<kVnni>(to[i][v], four, magnitudes, row[v]);
    }
  };
  int64_t group = 0;
  if constexpr (kChains > 1) {
    for (; group + kChains <= groups; group += kChains) {
#pragma GCC unroll 4
      for (int chain = 0; chain < kChains; ++chain) step(group + chain, more[chain]);
    }
  }
  for (; group < groups; ++group) step(group, sum);
  if constexpr (kChains > 1) {
#pragma GCC unroll 4
    for (int chain = 0; chain < kChains; ++chain) {
#pragma GCC unroll 8
      for (int i = 0; i < kCount; ++i) {
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sum[i][v] += more[chain][i][v];
      }
    }
  }
}

/// One panel for some rows.
template <bool kVnni>
class Task {
 public:
  Task(const PackedGemmArgs& args, const Rows& a, int64_t row, int64_t rows, int64_t panel)
      : args_(args),
        a_(a),
        panel_(args.b, panel),
        groups_(int8_groups(args.b.rows)),
        row_(row),
        rows_(rows),
        column_(panel * kPackedPanel) {}

  void run() {
    const int64_t blocks = (rows_ + kRows - 1) / kRows;
    const int64_t step = blocks == 1 ? groups_ : kDepth;
    int64_t begin = 0;
    do {  // at least once: without depth the sums are zero
      const int64_t end = std::min(groups_, begin + step);
      for (int64_t block = 0; block < blocks; ++block) {
        const int64_t first = rows_ * block / blocks;
        const auto count = static_cast<int>(rows_ * (block + 1) / blocks - first);
        if (is_to_fetch(block, blocks)) {
          block_of<true>(count, first, begin, end);
        } else {
          block_of<false>(count, first, begin, end);
        }
      }
      begin = end;
    } while (begin < groups_);
  }

 private:
  template <bool kFetch>
  void block_of(int count, int64_t first, int64_t begin, int64_t end) {
    [&]<int... kLess>(std::integer_sequence<int, kLess...>) {
      static_cast<void>(((count == kLess + 1 && (block<kFetch, kLess + 1>(first, begin, end), true)) || ...));
    }
    (std::make_integer_sequence<int, kRows>());
  }

  template <bool kFetch, int kCount>
  void block(int64_t first, int64_t begin, int64_t end) {
    Int8Sums sum[kCount][kVectors];
    int32_t* partial = partial_ + first * kPackedPanel;
    const auto at = [](const int32_t* from, int v) {
      Int8Sums sums;
      std::memcpy(&sums, from + v * kLanes<float>, sizeof(sums));
      return sums;
    };
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        sum[i][v] = begin > 0 ? at(partial + i * kPackedPanel, v)
                    : kVnni   ? at(panel_.starts(), v)
                              : Int8Sums{};
      }
    }
    multiply<kVnni, kFetch>(end - begin, a_, a_.row(row_ + first) + begin * kInt8Step, panel_.group(begin),
                            sum);
    if (end == groups_) return finish(row_ + first, sum);
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        std::memcpy(partial + i * kPackedPanel + v * kLanes<float>, &sum[i][v], sizeof(Int8Sums));
      }
    }
  }

  template <int kCount>
  [[gnu::always_inline]] void finish(int64_t row, const Int8Sums (&sum)[kCount][kVectors]) const {
    const int64_t count = std::min(kPackedPanel, args_.c.cols - column_);
    alignas(kVectorBytes) float bias[kPackedPanel] = {};
    if (args_.bias)
      std::memcpy(bias, args_.bias.as<float>() + column_, static_cast<size_t>(count) * sizeof(float));
    alignas(kVectorBytes) float narrow[kPackedPanel];
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      float* const c = args_.c.row<float>(row + i) + column_;
      float* const to = count == kPackedPanel ? c : narrow;
      const Numbers row_scale = in_all_lanes(a_.scales[row + i]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const Numbers scale = row_scale * load_vector(panel_.scales() + v * kLanes<float>);
        Numbers value = __builtin_convertvector(sum[i][v], Numbers) * scale;
        if (args_.bias) value += load_vector(bias + v * kLanes<float>);
        if (args_.relu) value = value < 0.0F ? Numbers{} : value;
        store_vector(to + v * kLanes<float>, value);
      }
      if (to == narrow) std::memcpy(c, narrow, static_cast<size_t>(count) * sizeof(float));
    }
  }

  const PackedGemmArgs& args_;
  const Rows& a_;
  Int8Panel panel_;
  int64_t groups_;
  int64_t row_;
  int64_t rows_;
  int64_t column_;
  alignas(64) int32_t partial_[kTaskRows * kPackedPanel];
};

/// Whether a product takes less time than waking another thread: it costs a multiplication for each element
/// of a vector, but at least the reading of b.
bool is_small(int64_t m, int64_t n, int64_t k) {
  constexpr int64_t kMultiplications = int64_t{1} << 21;
  return n * k * std::max<int64_t>(m, 8) < kMultiplications;
}

template <bool kVnni>
Rows quantise_all(Context& context, const ConstTensor& a) {
  constexpr int64_t kTogether = 16;  // rows of a task
  const int64_t row_bytes = (a.cols + kAlignment - 1) / kAlignment * kAlignment + kAlignment;
  const bool magnitudes = !kVnni && kWantsMagnitudes;
  const int64_t stride = magnitudes ? 2 * row_bytes : row_bytes;
  auto* const memory = static_cast<char*>(context.gemm_cache().padding(
      static_cast<size_t>(a.rows * (stride + static_cast<int64_t>(sizeof(float))))));
  auto* const data = reinterpret_cast<int8_t*>(memory);
  auto* const scales = reinterpret_cast<float*>(memory + a.rows * stride);
  const int64_t whole = int8_groups(a.cols) * kInt8Step;
  const auto run = [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      int8_t* const to = data + i * stride;
      scales[i] = quantise<kVnni>(a.row<float>(i), a.cols, to);
      std::memset(to + a.cols, 0, static_cast<size_t>(whole - a.cols));  // times rows of b that are zero
      if (!magnitudes) continue;
#pragma omp simd
      for (int64_t c = 0; c < whole; ++c) to[row_bytes + c] = static_cast<int8_t>(to[c] < 0 ? -to[c] : to[c]);
    }
  };
  constexpr int64_t kFew = int64_t{1} << 16;
  if (context.pool().threads() == 1 || a.rows * a.cols < kFew) {
    run(0, a.rows, 0);
  } else {
    context.pool().for_ranges(a.rows, kTogether, run);
  }
  return {data, row_bytes, stride, scales};
}

template <bool kVnni>
void multiply_all(Context& context, const PackedGemmArgs& args) {
  const int64_t m = args.a.rows;
  const Rows a = quantise_all<kVnni>(context, args.a);
  const int64_t panels = (args.b.cols + kPackedPanel - 1) / kPackedPanel;
  for_panels<kRows>(
      context, m, panels, kTaskRows, is_small(m, args.b.cols, args.b.rows),
      [&](int64_t row, int64_t rows, int64_t panel) { Task<kVnni>(args, a, row, rows, panel).run(); });
}

}  // namespace

size_t int8_packed_bytes(int64_t rows, int64_t cols) {
  return static_cast<size_t>((cols + kPackedPanel - 1) / kPackedPanel * Int8Panel::bytes(rows));
}

void int8_pack(Context& context, const PackArgs& args) {
  const int64_t cols = args.transpose ? args.source.rows : args.source.cols;
  if (cols == 0) return;
  const int64_t first = args.first_column / kPackedPanel;
  const int64_t count = (args.first_column + cols + kPackedPanel - 1) / kPackedPanel - first;
  context.pool().for_each(count, [&](int64_t index, int) { PanelPacker(args, first + index).run(); });
}

void int8_copy_column(const PackedMatrix& packed, int64_t column, float* to) {
  const Int8Panel panel(packed, column / kPackedPanel);
  const float scale = panel.scales()[column % kPackedPanel];
  for (int64_t k = 0; k < packed.rows; ++k) {
    const int8_t* group = panel.group(k / kInt8Step) + column % kPackedPanel * kInt8Step;
    to[k] = static_cast<float>(group[k % kInt8Step]) * scale;
  }
}

void int8_gemm(Context& context, const PackedGemmArgs& args) {
  if (args.a.rows == 0 || args.b.cols == 0) return;
  if constexpr (kMayHaveVnni) {
    if (processor_has_vnni(kVectorBytes)) return multiply_all<true>(context, args);
  }
  multiply_all<false>(context, args);
}

}  // namespace ventris
