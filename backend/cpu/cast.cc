// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "backend/cpu/simd.h"
#include "backend/ops/cast.h"

namespace ventris {
namespace {

constexpr int64_t kElementsPerTask = 1 << 15;

// Calls body(row, column, count) for pieces that together cover a matrix. If both views are contiguous, the
// matrix is treated as one long row.
template <typename Body>
void for_pieces(Context& context, int64_t rows, int64_t cols, bool contiguous, Body&& body) {
  if (contiguous) {
    context.pool().for_ranges(rows * cols, kElementsPerTask,
                              [&](int64_t begin, int64_t end, int) { body(int64_t{0}, begin, end - begin); });
    return;
  }
  const int64_t chunk = std::max<int64_t>(1, kElementsPerTask / std::max<int64_t>(cols, 1));
  context.pool().for_ranges(rows, chunk, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) body(row, int64_t{0}, cols);
  });
}

template <typename To, typename From>
To convert(From value) {
  if constexpr (std::is_same_v<From, To>) {
    return value;
  } else if constexpr (std::is_same_v<From, BF16>) {
    return static_cast<To>(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, BF16>) {
    return BF16(static_cast<float>(value));
  } else {
    return static_cast<To>(value);
  }
}

template <typename From, typename To>
void cast_typed(Context& context, const CastArgs& args) {
  const bool contiguous = args.source.contiguous() && args.destination.contiguous();
  for_pieces(context, args.source.rows, args.source.cols, contiguous,
             [&](int64_t row, int64_t col, int64_t count) {
               const From* __restrict source = args.source.row<From>(row) + col;
               To* __restrict destination = args.destination.row<To>(row) + col;
               for (int64_t i = 0; i < count; ++i) destination[i] = convert<To>(source[i]);
             });
}

}  // namespace

void cast_cpu(Context& context, const CastArgs& args) {
  dispatch_dtype(args.source.dtype, [&](auto from) {
    dispatch_dtype(args.destination.dtype,
                   [&](auto to) { cast_typed<decltype(from), decltype(to)>(context, args); });
  });
}

void fill_zero_cpu(Context& context, const Tensor& tensor) {
  const size_t size = size_of(tensor.dtype);
  const auto stride = static_cast<size_t>(tensor.stride);
  for_pieces(context, tensor.rows, tensor.cols, tensor.contiguous(),
             [&](int64_t row, int64_t col, int64_t count) {
               char* address = static_cast<char*>(tensor.data) +
                               (static_cast<size_t>(row) * stride + static_cast<size_t>(col)) * size;
               std::memset(address, 0, static_cast<size_t>(count) * size);
             });
}

}  // namespace ventris
