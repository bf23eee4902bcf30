// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "backend/simd_cpu.h"
#include "backend/sparse_product_cpu.h"
#include "backend/transpose_cpu.h"

/// Products of some rows of a sparse factor with a packed one. Each row becomes lists of its elements that
/// are not zero, and a row of the product the sum of their multiples of rows of the other factor. x + 0 * y
/// is x but for the sign of a zero, if y is finite: only a sum that ends as -0, of products too small for
/// f32, is computed again with all its terms.
namespace ventris {

/// Rows [row, row + rows) of a part of a product.
template <typename T, typename C>
class SparseTask {
 public:
  SparseTask(const SparseProduct& product, const SparsePart& part, SparseMemory& memory, int64_t row,
             int64_t rows)
      : product_(product), part_(part), memory_(memory), row_(row), rows_(rows) {}

  void run() {
    std::fill_n(memory_.sums, rows_ * kGroup, 0.0F);
    const ConstTensor& a = product_.a;
    const bool turned = product_.transpose_a;
    memory_.lists.template fill<T>(turned ? a.row_range(part_.first, part_.depth).col_range(row_, rows_)
                                          : a.row_range(row_, rows_).col_range(part_.first, part_.depth),
                                   turned);
    for (int64_t column = 0; column < part_.columns; column += kGroup) {
      column_ = column;
      columns_ = std::min(kGroup, part_.columns - column);
      // The last group reads a panel again in place of those that do not exist.
      for (int64_t p = 0; p < kGroupPanels; ++p)
        panels_[p] =
            part_.packed + std::min(column / kPackedPanel + p, part_.panels() - 1) * part_.panel_size();
      in_c_ = std::is_same_v<C, float> && !product_.turned && columns_ == kGroup;
      sums_ = in_c_ ? static_cast<float*>(static_cast<void*>(c_at(0))) : memory_.sums;
      stride_ = in_c_ ? product_.c.stride : kGroup;
      multiply_group();
    }
  }

 private:
  void multiply_group() {
    const bool adds = product_.accumulate || part_.first > 0;
    if (!in_c_ && adds) read_c();
    for (int64_t list = 0; list < part_.lists(); ++list) {
      const bool from_zero = list == 0 && !adds;
      const int64_t fetched = part_.fetches ? (part_.list_steps + rows_ - 1) / rows_ : 0;
      for (int64_t r = 0; r < rows_; ++r) {
        part_.fetch_after(panels_, list, r * fetched, std::min((r + 1) * fetched, part_.list_steps));
        if (!add(list, memory_.lists.of(list, r), from_zero, sums_ + r * stride_))
          add_all(list, r, from_zero);
      }
    }
    if (part_.last) add_bias();
    if (!in_c_) write_c();
  }

  /// Adds the products with the elements of a list to the sums of a row, or does nothing and returns false if
  /// one of the sums would be -0.
  bool add(int64_t list, const SparseList& elements, bool from_zero, float* to) const {
    const char* panel[kGroupPanels];
    for (int p = 0; p < kGroupPanels; ++p)
      panel[p] = reinterpret_cast<const char*>(panels_[p] + list * part_.list_steps * kPackedPanel);
    Sum sum[kGroupVectors];
    each_vector([&](int v) { sum[v] = from_zero ? Sum{} : load_vector(to + v * kLanes<float>); });
    for (int64_t i = 0; i < elements.count; ++i) {
      const int64_t offset = elements.offsets[i];
      const Sum factor = in_all_lanes(elements.values[i]);
      each_vector([&](int v) {
        const auto* row = reinterpret_cast<const float*>(panel[v / kPanelVectors] + offset);
        sum[v] = fused(factor, load_vector(row + v % kPanelVectors * kLanes<float>), sum[v]);
      });
    }
    if (has_negative_zero(sum)) return false;
    each_vector([&](int v) { store_vector(to + v * kLanes<float>, sum[v]); });
    return true;
  }

  /// add() with the zeros.
  [[gnu::noinline]] void add_all(int64_t list, int64_t r, bool from_zero) const {
    float* const to = sums_ + r * stride_;
    Sum sum[kGroupVectors];
    each_vector([&](int v) { sum[v] = from_zero ? Sum{} : load_vector(to + v * kLanes<float>); });
    for (int64_t k = 0; k < part_.steps(list); ++k) {
      const int64_t step = list * part_.list_steps + k;
      const Sum factor = in_all_lanes(product_.template element<T>(row_ + r, part_.first + step));
      each_vector([&](int v) {
        const float* const row = panels_[v / kPanelVectors] + step * kPackedPanel;
        sum[v] = fused(factor, load_vector(row + v % kPanelVectors * kLanes<float>), sum[v]);
      });
    }
    each_vector([&](int v) { store_vector(to + v * kLanes<float>, sum[v]); });
  }

  /// The element of c for row r of the task and the first column of the group.
  C* c_at(int64_t r) const {
    const int64_t column = part_.column + column_;
    return product_.turned ? product_.c.row<C>(column) + row_ + r : product_.c.row<C>(row_ + r) + column;
  }

  void read_c() const {
    if constexpr (std::is_same_v<C, float>) {
      if (product_.turned) return transpose(c_at(0), product_.c.stride, sums_, stride_, rows_, columns_);
    }
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t i = 0; i < columns_; ++i) sums_[r * stride_ + i] = load(c_at(r)[i]);
    }
  }

  void write_c() const {
    if constexpr (std::is_same_v<C, float>) {
      if (product_.turned) return transpose(sums_, stride_, c_at(0), product_.c.stride, columns_, rows_);
    }
    for (int64_t r = 0; r < rows_; ++r) {
      C* const c = c_at(r);
      for (int64_t i = 0; i < columns_; ++i) store(c[i], sums_[r * stride_ + i]);
    }
  }

  void add_bias() const {
    if (!product_.bias && !product_.relu) return;
    const float* const bias = product_.bias ? product_.bias.as<float>() + part_.column + column_ : nullptr;
    for (int64_t r = 0; r < rows_; ++r) {
      float* const sum = sums_ + r * stride_;
      for (int64_t i = 0; i < columns_ && bias != nullptr; ++i) sum[i] += bias[i];
      for (int64_t i = 0; i < columns_ && product_.relu; ++i) sum[i] = sum[i] < 0.0F ? 0.0F : sum[i];
    }
  }

  const SparseProduct& product_;
  const SparsePart& part_;
  SparseMemory& memory_;
  int64_t row_;
  int64_t rows_;
  // Of the group:
  int64_t column_ = 0;  // of the part
  int64_t columns_ = 0;
  const float* panels_[kGroupPanels] = {};
  bool in_c_ = false;  // sums are read from c and written to it
  float* sums_ = nullptr;
  int64_t stride_ = 0;
};

}  // namespace ventris
