#include "backend/chained_gemm_cpu.h"

#include <algorithm>

#include "backend/gemm_cache.h"
#include "backend/packed_gemm.h"
#include "backend/transpose_cpu.h"

namespace ventris {
namespace {

// Of b so much is packed at a time, which stays in the cache that cores share; of a transposed a so many rows
// are turned, which stay in a core's.
constexpr int64_t kDepth = 1024;
constexpr int64_t kColumns = 1024;
constexpr int64_t kTurnedRows = 256;
constexpr int64_t kAlignment = 64;
// Rows of a transposed operand lie so much further apart than they are long: not a power of two.
constexpr int64_t kApart = 16;

int64_t aligned(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Rows or columns [begin, begin + length) of x.
ConstTensor part(const ConstTensor& x, bool rows, int64_t begin, int64_t length) {
  return rows ? x.row_range(begin, length) : x.col_range(begin, length);
}

/// to = from^T.
void transpose_all(Context& context, const ConstTensor& from, const Tensor& to) {
  constexpr int64_t kRows = 32;
  context.pool().for_ranges(to.rows, kRows, [&](int64_t begin, int64_t end, int) {
    transpose(from.as<float>() + begin, from.stride, to.row<float>(begin), to.stride, end - begin, to.cols);
  });
}

}  // namespace

void chained_gemm_cpu(Context& context, const GemmArgs& args) {
  const int64_t m = args.c.rows;
  const int64_t n = args.c.cols;
  const int64_t k = args.transpose_a ? args.a.rows : args.a.cols;
  const int64_t depth = std::min(k, kDepth);
  const int64_t columns = std::min(n, kColumns);
  const int64_t rows = args.transpose_a ? std::min(m, kTurnedRows) : m;
  const int64_t stride = depth + kApart;
  const int64_t packed = aligned(static_cast<int64_t>(packed_bytes(depth, columns, DType::kF32)));
  const int64_t turned = args.transpose_a ? rows * stride * static_cast<int64_t>(sizeof(float)) : 0;
  char* memory = static_cast<char*>(context.gemm_cache().padding(static_cast<size_t>(packed + turned)));

  for (int64_t p = 0; p < k; p += depth) {
    const int64_t length = std::min(depth, k - p);
    const bool last = p + length == k;
    const ConstTensor a = part(args.a, args.transpose_a, p, length);
    for (int64_t j = 0; j < n; j += columns) {
      const int64_t width = std::min(columns, n - j);
      const PackedMatrix b{memory, length, width, DType::kF32};
      const ConstTensor source = part(part(args.b, !args.transpose_b, p, length), args.transpose_b, j, width);
      pack(context, {.source = source, .transpose = args.transpose_b, .to = b});
      for (int64_t i = 0; i < m; i += rows) {
        const int64_t height = std::min(rows, m - i);
        ConstTensor factor = part(a, !args.transpose_a, i, height);
        if (args.transpose_a) {
          const Tensor to{memory + packed, height, length, stride, DType::kF32};
          transpose_all(context, factor, to);
          factor = to;
        }
        packed_gemm(context, {.a = factor,
                              .b = b,
                              .c = args.c.row_range(i, height).col_range(j, width),
                              .bias = last && args.bias ? args.bias.col_range(j, width) : ConstTensor{},
                              .relu = last && args.relu,
                              .accumulate = args.accumulate || p > 0});
      }
    }
  }
}

}  // namespace ventris
