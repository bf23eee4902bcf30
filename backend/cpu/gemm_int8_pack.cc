// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/gemm_int8_pack.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "backend/cpu/gemm_int8_layout.h"
#include "backend/cpu/transpose.h"
#include "backend/ops/int8_scale.h"

namespace ventris {
namespace {

constexpr int64_t kBlockRows = 64;  // rows of a panel in a block; a multiple of four
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
    for (int64_t k = 0; k < args_.to.rows; k += kBlockRows) {
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
    for (int64_t k = 0; k < args_.to.rows; k += kBlockRows) {
      const int64_t rows = take(k);
      for (int64_t r = 0; r < rows; r += kInt8Step) put(k + r, r, std::min(rows - r, kInt8Step), inverse);
    }
    for (int64_t c = begin_; c < end_; ++c) panel_.starts()[c] = -128 * sums_[static_cast<size_t>(c)];
  }

 private:
  /// Reads rows of the panel from k on into block_; returns their number.
  int64_t take(int64_t k) {
    const int64_t rows = std::min(kBlockRows, args_.to.rows - k);
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
  alignas(64) std::array<float, kBlockRows * kPackedPanel> block_{};
};

}  // namespace

size_t int8_packed_bytes_cpu(int64_t rows, int64_t cols) {
  return static_cast<size_t>((cols + kPackedPanel - 1) / kPackedPanel * Int8Panel::bytes(rows));
}

void int8_pack_cpu(Context& context, const PackArgs& args) {
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

}  // namespace ventris
