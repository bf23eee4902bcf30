// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/device/context.h"

namespace ventris::cuda {

/// to[c] += sum over k < count of partial[k * stride + c], in a fixed order, for c < cols.
struct ColumnSum {
  const float* partial;
  float* to;
  int count;
  int stride;
  int cols;
};
/// A kernel's argument: the sums of one launch. Their destinations are disjoint.
struct ColumnSumList {
  static constexpr int kMost = 32;
  ColumnSum sums[kMost];
};

/// The column sums of a device that wait for a common launch, with the memory of their parts.
class PendingColumnSums {
 public:
  /// For the parts of a layer of `big` with some to spare; where it is full, there is another launch.
  static constexpr size_t kBytes = size_t{32} << 20;

  explicit PendingColumnSums(cudaStream_t stream) : stream_(stream) {}
  ~PendingColumnSums();
  PendingColumnSums(const PendingColumnSums&) = delete;
  PendingColumnSums& operator=(const PendingColumnSums&) = delete;

  /// Memory for parts that the stream writes; null if it is too much. Enqueues what waits if the rest is too
  /// small.
  float* room(int64_t floats);
  /// Leaves a sum for complete().
  void add(const ColumnSum& sum);
  /// Enqueues all that is left.
  void complete();

 private:
  void launch_list();

  cudaStream_t stream_;
  char* memory_ = nullptr;
  size_t used_ = 0;
  int count_ = 0;
  ColumnSumList list_ = {};
};

/// The column sums of one operation: its parts [count, stride], and what becomes of them.
class ColumnParts {
 public:
  /// `later`: their sums may wait for complete_column_sums.
  ColumnParts(Context& context, int64_t count, int64_t stride, bool later);
  /// To be written by the stream before sum() is called.
  float* data() const { return data_; }
  /// to[g][c] += the sum of column g * cols + c, for c < cols. Null destinations are skipped.
  void sum(int64_t cols, std::span<float* const> to);

 private:
  PendingColumnSums& pending_;
  ArenaScope scope_;
  int64_t count_;
  int64_t stride_;
  bool later_;
  float* data_;
};

/// Rows of one block of a kernel that computes partial column sums: depends only on the number of rows.
constexpr int64_t rows_of_partial(int64_t rows) {
  constexpr int64_t kMax = 264;  // blocks; twice the multiprocessors of the largest chips
  constexpr int64_t kMin = 32;
  const int64_t spread = (rows + kMax - 1) / kMax;
  return spread < kMin ? kMin : spread;
}

}  // namespace ventris::cuda
