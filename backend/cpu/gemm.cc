// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/gemm.h"

#include <algorithm>

#include "backend/cpu/gemm_onednn.h"
#include "backend/cpu/gemm_panels.h"
#include "backend/cpu/simd.h"
#include "backend/cpu/transpose.h"

namespace ventris {
namespace {

constexpr int64_t kConvertedRows = 32;  // of a task

/// Pieces of one allocation; only measures if `base` is null.
class Pieces {
 public:
  explicit Pieces(char* base) : base_(base) {}
  template <typename E>
  E* take(int64_t count) {
    constexpr int64_t kAlignment = 64;
    char* const piece = base_ == nullptr ? nullptr : base_ + used_;
    const auto size = static_cast<int64_t>(sizeof(E));
    used_ += (count * size + kAlignment - 1) / kAlignment * kAlignment;
    return reinterpret_cast<E*>(piece);
  }
  Tensor matrix(int64_t rows, int64_t cols) {
    constexpr int64_t kApart = 16;  // so that the stride is not a power of two
    const int64_t stride = cols + kApart;
    return {take<float>(rows * stride), rows, cols, stride, DType::kF32};
  }
  int64_t used() const { return used_; }

 private:
  char* base_;
  int64_t used_ = 0;
};

/// to = from in the dtype of `to`. Fetches rows ahead: parts of them end before hardware foresees more.
template <typename From, typename To>
void convert(Context& context, const ConstTensor& from, const Tensor& to) {
  context.pool().for_ranges(to.rows, kConvertedRows, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const From* x = from.row<From>(r);
      To* y = to.row<To>(r);
      for (int64_t c = 0; c < to.cols; c += kOfLine<From>)
        __builtin_prefetch(x + kFetchedRows * from.stride + c);
#pragma omp simd
      for (int64_t c = 0; c < to.cols; ++c) store(y[c], load(x[c]));
    }
  });
}

/// The first rows and columns of a matrix.
Tensor corner(const Tensor& x, int64_t rows, int64_t cols) {
  return {x.data, rows, cols, x.stride, x.dtype};
}

// The part of b that is packed at a time stays in the shared cache; its depth of the rows of a task stays in
// the L2 cache of a core, as do the rows of op(a) that are copied at a time, if necessary.
constexpr int64_t kDepth = 512;
constexpr int64_t kColumns = 1024;
constexpr int64_t kPreparedRows = 192;  // of kDepth, of less depth more
constexpr int64_t kLeastDepth = 64;

/// Rows or columns [begin, begin + length) of x.
ConstTensor part(const ConstTensor& x, bool rows, int64_t begin, int64_t length) {
  return rows ? x.row_range(begin, length) : x.col_range(begin, length);
}

/// to = from, or from^T, in f32.
template <typename From>
void widen(Context& context, const ConstTensor& from, bool transposed, const Tensor& to) {
  if (!transposed) return convert<From, float>(context, from, to);
  context.pool().for_ranges(to.rows, kConvertedRows, [&](int64_t begin, int64_t end, int) {
    transpose(from.row<From>(0) + begin, from.stride, to.row<float>(begin), to.stride, end - begin, to.cols);
  });
}

/// The work memory of a product of given shape.
class Workspace {
 public:
  Workspace(char* base, const GemmArgs& args)
      : k(args.transpose_a ? args.a.rows : args.a.cols),
        depth(std::min(k, kDepth)),
        columns(std::min(args.c.cols, kColumns)),
        wide(args.a.dtype == DType::kF32),
        prepared(args.transpose_a || !wide),
        prepared_rows(prepared ? std::min(args.c.rows, kDepth / std::max(depth, kLeastDepth) * kPreparedRows)
                               : args.c.rows) {
    Pieces pieces(base);
    packed = pieces.take<char>(static_cast<int64_t>(packed_bytes(depth, columns, Packing::kF32)));
    if (prepared) a = pieces.matrix(prepared_rows, depth);
    const bool at_once = k <= depth && !args.accumulate;
    if (args.c.dtype != DType::kF32 && !at_once) c = pieces.matrix(args.c.rows, columns);
    bytes = pieces.used();
  }

  int64_t k;
  int64_t depth;          // of a part of the sum
  int64_t columns;        // of a part of b
  bool wide;              // whether the factors are f32
  bool prepared;          // whether op(a) is copied
  int64_t prepared_rows;  // rows of a part of op(a)
  char* packed;           // a part of b in panels
  Tensor a;               // [prepared_rows, depth], a part of op(a) in f32
  Tensor c;               // [m, columns], the sums if c cannot hold them
  int64_t bytes;
};

class ChainedGemm {
 public:
  ChainedGemm(Context& context, const GemmArgs& args, const Workspace& work)
      : context_(context), args_(args), work_(work) {}

  void run() {
    for (int64_t j = 0; j < args_.c.cols; j += work_.columns) {
      const int64_t width = std::min(work_.columns, args_.c.cols - j);
      const Tensor to = args_.c.col_range(j, width);
      const Tensor sums = work_.c ? corner(work_.c, to.rows, width) : to;
      if (work_.c && args_.accumulate) convert<BF16, float>(context_, to, sums);
      for (int64_t p = 0; p < work_.k; p += work_.depth) add_depth(j, width, p, sums);
      if (work_.c) convert<float, BF16>(context_, sums, to);
    }
  }

 private:
  /// sums (+)= the part of the product from depth p on, of columns [j, j + width).
  void add_depth(int64_t j, int64_t width, int64_t p, const Tensor& sums) {
    const int64_t length = std::min(work_.depth, work_.k - p);
    const bool last = p + length == work_.k;
    const PackedMatrix b{work_.packed, length, width, Packing::kF32};
    const ConstTensor source =
        part(part(args_.b, !args_.transpose_b, p, length), args_.transpose_b, j, width);
    pack_cpu(context_, {.source = source, .transpose = args_.transpose_b, .to = b});
    for (int64_t i = 0; i < args_.c.rows; i += work_.prepared_rows) {
      const int64_t height = std::min(work_.prepared_rows, args_.c.rows - i);
      const ConstTensor a = part(part(args_.a, args_.transpose_a, p, length), !args_.transpose_a, i, height);
      multiply(a, {.a = {},
                   .b = b,
                   .c = sums.row_range(i, height),
                   .bias = last && args_.bias ? args_.bias.col_range(j, width) : ConstTensor{},
                   .relu = last && args_.relu,
                   .accumulate = args_.accumulate || p > 0});
    }
  }

  void multiply(const ConstTensor& a, PackedGemmArgs product) {
    product.a = a;
    if (work_.prepared) {
      const Tensor copied = corner(work_.a, product.c.rows, product.b.rows);
      work_.wide ? widen<float>(context_, a, args_.transpose_a, copied)
                 : widen<BF16>(context_, a, args_.transpose_a, copied);
      product.a = copied;
    }
    packed_gemm_cpu(context_, product);
  }

  Context& context_;
  const GemmArgs& args_;
  const Workspace& work_;
};

}  // namespace

void chained_gemm_cpu(Context& context, const GemmArgs& args) {
  const auto bytes = static_cast<size_t>(Workspace(nullptr, args).bytes);
  const Workspace work(static_cast<char*>(context.gemm_cache().padding(bytes)), args);
  ChainedGemm(context, args, work).run();
}

void gemm_cpu(Context& context, const GemmArgs& args) {
  const int64_t k = args.transpose_a ? args.a.rows : args.a.cols;
  if (args.b.dtype == DType::kF64 || k == 0) return gemm_reference(context, args);
  if (args.a.dtype == DType::kBF16 && onednn_gemm(context, args)) return;
  chained_gemm_cpu(context, args);
}

}  // namespace ventris
