#include <cmath>

#include "backend/global_norm.h"
#include "backend/kernels_cpu.h"
#include "backend/op_checks.h"

namespace ventris {
namespace {

constexpr int64_t kChunk = 16384;  // elements of one partial sum
constexpr int kLanes = 32;         // running sums within it

template <typename M>
double chunk_squares(const M* x, int64_t n) {
  double lanes[kLanes] = {};
  const int64_t whole = n / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) {
#pragma omp simd
    for (int l = 0; l < kLanes; ++l) {
      const double value = static_cast<double>(x[i + l]);
      lanes[l] = std::fma(value, value, lanes[l]);
    }
  }
  for (int64_t i = whole; i < n; ++i) {
    const double value = static_cast<double>(x[i]);
    lanes[i - whole] = std::fma(value, value, lanes[i - whole]);
  }
  double total = 0.0;
  for (const double lane : lanes) total += lane;
  return total;
}

template <typename M>
void sum(Context& context, const SumOfSquaresArgs& args) {
  const int64_t n = args.x.cols;
  const int64_t chunks = (n + kChunk - 1) / kChunk;
  need_scratch(context, static_cast<size_t>(chunks) * sizeof(double));
  ArenaScope scope(context.scratch());
  double* partial = context.scratch().allocate_array<double>(chunks);
  const M* x = args.x.as<M>();
  context.pool().for_ranges(n, kChunk, [&](int64_t begin, int64_t end, int) {
    partial[begin / kChunk] = chunk_squares(x + begin, end - begin);
  });
  double total = 0.0;
  for (int64_t k = 0; k < chunks; ++k) total += partial[k];
  args.result[0] = total;
}

}  // namespace

void sum_of_squares_cpu(Context& context, const SumOfSquaresArgs& args) {
  if (args.x.dtype == DType::kF64) {
    sum<double>(context, args);
  } else {
    sum<float>(context, args);
  }
}

}  // namespace ventris
