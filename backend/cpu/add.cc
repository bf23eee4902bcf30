// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backend/ops/add.h"

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
    M* const sum = step.sum ? step.sum.as<M>() + begin : nullptr;
    for (int addition = 1; addition <= step.additions; ++addition) {
      const M* older = sums[--newest];
      M* to = sum != nullptr && addition == step.additions ? sum : sums[newest];
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) to[i] = older[i] + term[i];
      term = to;
    }
    if (step.additions == 0) std::copy(term, term + count, sum != nullptr ? sum : sums[newest]);
    if (sum == nullptr) ++newest;
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
