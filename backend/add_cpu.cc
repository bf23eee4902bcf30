#include <algorithm>

#include "backend/add.h"
#include "backend/kernels_cpu.h"

namespace ventris {
namespace {

constexpr int64_t kChunk = 16384;  // elements of one piece of work

template <typename M>
void add_elements(Context& context, const AddArgs& args) {
  const M* a = args.a.as<M>();
  const M* b = args.b ? args.b.as<M>() : nullptr;
  M* sum = args.sum.as<M>();
  context.pool().for_ranges(args.sum.cols, kChunk, [=](int64_t begin, int64_t end, int) {
    if (b == nullptr) {
      std::copy(a + begin, a + end, sum + begin);
      return;
    }
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) sum[i] = a[i] + b[i];
  });
}

}  // namespace

void add_cpu(Context& context, const AddArgs& args) {
  if (args.sum.cols == 0) return;
  if (args.a.dtype == DType::kF64) return add_elements<double>(context, args);
  add_elements<float>(context, args);
}

}  // namespace ventris
