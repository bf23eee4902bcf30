#include <algorithm>

#include "backend/add.h"
#include "backend/kernels_cpu.h"

namespace ventris {
namespace {

constexpr int64_t kChunk = 16384;  // elements of one piece of work
constexpr int64_t kBlock = 256;    // elements whose partial sums stay in the cache

template <typename M>
void add_elements(const AddArgs& args, int64_t begin, int64_t count) {
  M sums[kMaxPartialSums][kBlock];  // the first `newest` are incomplete
  int newest = 0;
  for (const AddStep& step : args.steps) {
    const M* term = step.term.as<M>() + begin;
    if (step.additions == 0) std::copy(term, term + count, sums[newest]);
    for (int addition = 0; addition < step.additions; ++addition) {
      M* older = sums[--newest];
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) older[i] = older[i] + term[i];
      term = older;
    }
    if (!step.sum) {
      ++newest;
    } else {
      std::copy(sums[0], sums[0] + count, step.sum.as<M>() + begin);
    }
  }
}

}  // namespace

void add_cpu(Context& context, const AddArgs& args) {
  const Tensor& term = args.steps.front().term;
  context.pool().for_ranges(term.cols, kChunk, [&](int64_t begin, int64_t end, int) {
    for (; begin < end; begin += kBlock) {
      const int64_t count = std::min(kBlock, end - begin);
      if (term.dtype == DType::kF64) {
        add_elements<double>(args, begin, count);
      } else {
        add_elements<float>(args, begin, count);
      }
    }
  });
}

}  // namespace ventris
