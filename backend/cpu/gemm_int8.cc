// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/gemm_int8.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "backend/cpu/gemm_int8_dot.h"
#include "backend/cpu/gemm_int8_layout.h"
#include "backend/cpu/gemm_onednn.h"
#include "backend/cpu/gemm_panel_tasks.h"
#include "backend/cpu/simd.h"
#include "backend/device/instruction_set.h"
#include "backend/ops/int8_scale.h"

namespace ventris {
namespace {

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
  constexpr int32_t kInfinity = 0x7F800000;
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

void int8_gemm_cpu(Context& context, const PackedGemmArgs& args) {
  if (args.a.rows == 0 || args.b.cols == 0) return;
  if constexpr (kMayHaveVnni) {
    if (processor_has_vnni(kVectorBytes)) return multiply_all<true>(context, args);
  }
  multiply_all<false>(context, args);
}

}  // namespace ventris
