// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/column_sums.cuh"
#include "backend/cuda/column_sums.h"
#include "backend/cuda/intrinsics.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/device/context_cuda.h"
#include "backend/device/device_cuda.h"
#include "backend/ops/op_checks.h"

namespace ventris::cuda {
namespace {

constexpr int kGroups = 16;  // of rows that are summed in parallel

/// One block: 32 columns of a sum. Grid: (columns / 32 of the widest, sums); block: 32 x kGroups threads.
/// Thread (x, y) sums rows y, y + kGroups, ... of column x; the first row of threads adds the groups in order
/// and writes the result.
__global__ void add_columns(const __grid_constant__ ColumnSumList list) {
  __shared__ float group_sums[kGroups][kWarp];
  const ColumnSum& f = list.sums[blockIdx.y];
  const int column = static_cast<int>(blockIdx.x * kWarp + threadIdx.x);
  float sum = 0.0F;
  if (column < f.cols) {
    const float* from = f.partial + column;
    const int stride = f.stride;
    const int count = f.count;
#pragma unroll 4
    for (int k = static_cast<int>(threadIdx.y); k < count; k += kGroups) sum += from[int64_t{k} * stride];
  }
  group_sums[threadIdx.y][threadIdx.x] = sum;
  sync_threads();
  if (threadIdx.y != 0 || column >= f.cols) return;
  for (int g = 1; g < kGroups; ++g) sum += group_sums[g][threadIdx.x];
  f.to[column] += sum;
}

}  // namespace

PendingColumnSums::~PendingColumnSums() {
  free_cuda(memory_);
}

float* PendingColumnSums::room(int64_t floats) {
  constexpr size_t kAlignment = 128;
  const size_t bytes =
      (static_cast<size_t>(floats) * sizeof(float) + kAlignment - 1) / kAlignment * kAlignment;
  if (bytes > kBytes) return nullptr;
  if (memory_ == nullptr) memory_ = allocate_cuda(kBytes, "parts of the gradients of biases and norms");
  if (used_ + bytes > kBytes) complete();
  auto* data = reinterpret_cast<float*>(memory_ + used_);
  used_ += bytes;
  return data;
}

void PendingColumnSums::add(const ColumnSum& sum) {
  bool waits = count_ == ColumnSumList::kMost;
  for (int i = 0; i < count_; ++i) {  // the blocks of one launch must not share a destination
    const ColumnSum& other = list_.sums[i];
    waits = waits || (sum.to < other.to + other.cols && other.to < sum.to + sum.cols);
  }
  if (waits) launch_list();
  list_.sums[count_++] = sum;
}

void PendingColumnSums::launch_list() {
  int cols = 0;
  for (int i = 0; i < count_; ++i) cols = list_.sums[i].cols > cols ? list_.sums[i].cols : cols;
  launch({.name = "add_columns",
          .grid = dim3(blocks_for(cols, kWarp), static_cast<unsigned>(count_)),
          .block = dim3(kWarp, kGroups)},
         stream_, add_columns, list_);
  count_ = 0;
}

void PendingColumnSums::complete() {
  launch_list();
  used_ = 0;
}

ColumnParts::ColumnParts(Context& context, int64_t count, int64_t stride, bool later)
    : pending_(*context.cuda().pending_sums),
      scope_(context.scratch()),
      count_(count),
      stride_(stride),
      later_(later),
      data_(pending_.room(count * stride)) {
  if (data_ != nullptr) return;
  later_ = false;  // scratch is given back when the operation returns
  need_scratch(context, static_cast<size_t>(count * stride) * sizeof(float));
  data_ = context.scratch().allocate_array<float>(count * stride);
}

void ColumnParts::sum(int64_t cols, std::span<float* const> to) {
  const float* partial = data_;
  for (float* const one : to) {
    if (one != nullptr) {
      pending_.add({.partial = partial,
                    .to = one,
                    .count = static_cast<int>(count_),
                    .stride = static_cast<int>(stride_),
                    .cols = static_cast<int>(cols)});
    }
    partial += cols;
  }
  if (!later_) pending_.complete();
}

}  // namespace ventris::cuda

namespace ventris {

void complete_column_sums_cuda(Context& context) {
  context.cuda().pending_sums->complete();
}

}  // namespace ventris
