// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/gemm.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "backend/cpu/gemm_onednn.h"
#include "backend/cpu/gemm_reference.h"
#include "backend/cpu/kernel_table.h"
#include "backend/device/split.h"

namespace ventris {
namespace {

// The numbers of tokens (rows of activations) differ from micro-batch to micro-batch, and a primitive serves
// one shape. So the token dimension is cut into blocks whose lengths are multiples of a unit: a few shapes
// serve any length.
constexpr int64_t kUnit = 32;
constexpr int64_t kRowBlock = 512;     // tokens per block of y = x w
constexpr int64_t kDepthBlock = 1024;  // tokens per block of dw += x^T dy
constexpr int64_t kTile = 1024;        // rows and columns of dw per tile

/// In pieces of about `target`, at least `min` of them.
Split split(int64_t total, int64_t target, int64_t unit, int64_t min = 1) {
  return {total, unit, std::max(min, (total + target - 1) / target)};
}

const void* at(const ConstTensor& x, int64_t row, int64_t col) {
  return static_cast<const char*>(x.data) + (row * x.stride + col) * static_cast<int64_t>(size_of(x.dtype));
}

void* at(const Tensor& x, int64_t row, int64_t col) {
  return const_cast<void*>(at(ConstTensor(x), row, col));
}

// A view of one row may have any stride; the library requires a valid one.
int64_t stride_of(const ConstTensor& x) {
  return x.rows == 1 ? std::max(x.stride, x.cols) : x.stride;
}

class Product {
 public:
  Product(Context& context, const GemmArgs& args)
      : context_(context),
        cache_(context.gemm_cache()),
        args_(args),
        k_(args.transpose_a ? args.a.rows : args.a.cols) {}

  /// False if the library has no primitive for one of the blocks; then nothing was computed.
  bool by_rows();
  bool by_depth();

 private:
  GemmShape shape(int64_t m, int64_t n, int64_t k, bool accumulate) const {
    return {.dtype = args_.a.dtype,
            .c_dtype = args_.c.dtype,
            .transpose_a = args_.transpose_a,
            .transpose_b = args_.transpose_b,
            .bias = static_cast<bool>(args_.bias),
            .relu = args_.relu,
            .accumulate = accumulate,
            .m = m,
            .n = n,
            .k = k,
            .a_stride = stride_of(args_.a),
            .b_stride = stride_of(args_.b),
            .c_stride = stride_of(args_.c)};
  }
  const void* a_at(int64_t row, int64_t p) const {
    return args_.transpose_a ? at(args_.a, p, row) : at(args_.a, row, p);
  }
  const void* b_at(int64_t p, int64_t col) const {
    return args_.transpose_b ? at(args_.b, col, p) : at(args_.b, p, col);
  }
  const void* bias_at(int64_t col) const { return args_.bias ? at(args_.bias, 0, col) : nullptr; }

  /// Rows [begin, begin + m) of columns [col, col + n), over all of k.
  void run(const GemmShape& shape, int thread, int64_t row, int64_t col) const {
    cache_.run(shape, thread, a_at(row, 0), b_at(0, col), bias_at(col), at(args_.c, row, col));
  }
  ConstTensor padded_rows(const ConstTensor& x, int64_t begin, void* address) const;

  Context& context_;
  GemmCache& cache_;
  const GemmArgs& args_;
  int64_t k_;
};

// Forward products and gradients of activations: the rows of c are tokens. The last block is shifted to end
// at the last row, and recomputes some rows of the previous block: the same bits, by the same thread. With
// accumulation, which would count them twice, the rows after the last whole unit are processed in pieces of
// 16, 8, 4, 2 and 1.
bool Product::by_rows() {
  const int64_t m = args_.c.rows;
  const int64_t unit = std::min(kUnit, static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(m))));
  const int64_t rest = m % unit;
  const bool again = rest != 0 && !args_.accumulate;
  const Split rows = split(again ? m : m - rest, kRowBlock, unit, again ? 2 : 1);
  // The last two blocks are one task if they share rows; few tasks by rows are split further by columns.
  const int64_t row_tasks = again ? rows.count - 1 : rows.count;
  const Split cols = split(args_.c.cols, row_tasks < 3 ? 256 : kTile, 64);

  for (int64_t j = 0; j < cols.count; ++j) {
    for (int64_t i = 0; i < rows.count; ++i) {
      const GemmShape block = shape(rows.whole_length(i), cols.length(j), k_, args_.accumulate);
      if (!cache_.prepare(block)) return false;
    }
    for (int64_t piece = unit / 2; piece > 0 && args_.accumulate; piece /= 2) {
      if ((rest & piece) != 0 && !cache_.prepare(shape(piece, cols.length(j), k_, true))) return false;
    }
  }
  context_.pool().for_each(row_tasks * cols.count, [&](int64_t index, int thread) {
    // From the end, so that the task with two blocks comes first.
    const int64_t task = row_tasks - 1 - index / cols.count;
    const int64_t j = index % cols.count;
    const bool last = task == row_tasks - 1;
    for (int64_t i = task; i < (last ? rows.count : task + 1); ++i) {
      const int64_t height = rows.whole_length(i);
      run(shape(height, cols.length(j), k_, args_.accumulate), thread,
          std::min(rows.begin(i), rows.total - height), cols.begin(j));
    }
    if (!last || !args_.accumulate) return;
    int64_t row = m - rest;
    for (int64_t piece = unit / 2; piece > 0; piece /= 2) {
      if ((rest & piece) == 0) continue;
      run(shape(piece, cols.length(j), k_, true), thread, row, cols.begin(j));
      row += piece;
    }
  });
  return true;
}

// Rows [begin, x.rows) of x, followed by zeros up to a whole unit.
ConstTensor Product::padded_rows(const ConstTensor& x, int64_t begin, void* address) const {
  const Tensor padded{address, kUnit, x.cols, x.cols, x.dtype};
  const size_t bytes = static_cast<size_t>(x.cols) * size_of(x.dtype);
  for (int64_t row = 0; row < kUnit; ++row) {
    if (begin + row < x.rows) {
      std::memcpy(at(padded, row, 0), at(x, begin + row, 0), bytes);
    } else {
      std::memset(at(padded, row, 0), 0, bytes);
    }
  }
  return padded;
}

// Gradients of weights: the sum runs over tokens. The tokens after the last whole unit are copied and padded
// with zeros, which add nothing. Each tile of c adds its blocks in order.
bool Product::by_depth() {
  const int64_t rest = k_ % kUnit;
  const Split depth = split(k_ - rest, kDepthBlock, kUnit);
  const int64_t blocks = k_ >= kUnit ? depth.count : 0;
  const Split rows = split(args_.c.rows, kTile, 64);
  const Split cols = split(args_.c.cols, kTile, 64);
  GemmArgs tail = args_;
  if (rest != 0) {
    const int64_t a_bytes = kUnit * args_.a.cols * static_cast<int64_t>(size_of(args_.a.dtype));
    const int64_t b_bytes = kUnit * args_.b.cols * static_cast<int64_t>(size_of(args_.b.dtype));
    char* memory = static_cast<char*>(cache_.padding(static_cast<size_t>(a_bytes + b_bytes)));
    tail.a = padded_rows(args_.a, k_ - rest, memory);
    tail.b = padded_rows(args_.b, k_ - rest, memory + a_bytes);
  }
  const Product tail_product(context_, tail);
  const auto accumulates = [&](int64_t block) { return args_.accumulate || block > 0; };
  for (int64_t i = 0; i < rows.count; ++i) {
    for (int64_t j = 0; j < cols.count; ++j) {
      const int64_t m = rows.length(i);
      const int64_t n = cols.length(j);
      for (int64_t block = 0; block < blocks; ++block) {
        if (!cache_.prepare(shape(m, n, depth.length(block), accumulates(block)))) return false;
      }
      if (rest != 0 && !cache_.prepare(tail_product.shape(m, n, kUnit, accumulates(blocks)))) return false;
    }
  }
  context_.pool().for_each(rows.count * cols.count, [&](int64_t index, int thread) {
    const int64_t i = index / cols.count;
    const int64_t j = index % cols.count;
    const int64_t m = rows.length(i);
    const int64_t n = cols.length(j);
    void* c = at(args_.c, rows.begin(i), cols.begin(j));
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t p = depth.begin(block);
      cache_.run(shape(m, n, depth.length(block), accumulates(block)), thread, a_at(rows.begin(i), p),
                 b_at(p, cols.begin(j)), nullptr, c);
    }
    if (rest == 0) return;
    cache_.run(tail_product.shape(m, n, kUnit, accumulates(blocks)), thread,
               tail_product.a_at(rows.begin(i), 0), tail_product.b_at(0, cols.begin(j)), nullptr, c);
  });
  return true;
}

}  // namespace

void gemm_cpu(Context& context, const GemmArgs& args) {
  const int64_t k = args.transpose_a ? args.a.rows : args.a.cols;
  if (args.b.dtype == DType::kF64 || k == 0) return gemm_reference(context, args);
  if (args.a.dtype != DType::kBF16) return cpu_kernels().chained_gemm(context, args);
  // Splitting the sum needs a result that holds partial sums exactly, and an operand whose padding is zero.
  const bool cut_depth =
      args.transpose_a && !args.transpose_b && args.c.dtype == DType::kF32 && !args.bias && !args.relu;
  Product product(context, args);
  if (!(cut_depth ? product.by_depth() : product.by_rows())) cpu_kernels().chained_gemm(context, args);
}

}  // namespace ventris
