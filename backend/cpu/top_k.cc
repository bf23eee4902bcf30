// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/largest.h"
#include "backend/cpu/simd.h"
#include "backend/ops/op_checks.h"
#include "backend/ops/top_k.h"

namespace ventris {
namespace {

constexpr int64_t kRows = 4;  // rows of one piece of work

/// log of the sum of e^x over the row.
template <typename T>
double log_sum_exp(const T* x, int64_t n) {
  const Master<T> max = row_max(x, n);
  return static_cast<double>(max) + portable_log(row_exp_sum(x, n, max));
}

/// The tokens that a row must not have.
struct Banned {
  Banned(const LogSoftmaxTopKArgs& args, int64_t row) : everywhere(args.banned) {
    if (args.row_banned == nullptr) return;
    begin = args.row_banned + args.row_banned_begin[row];
    end = args.row_banned + args.row_banned_begin[row + 1];
  }
  bool has(int32_t token) const {
    for (const int32_t* b = everywhere; b != nullptr && *b >= 0; ++b) {
      if (*b == token) return true;
    }
    return std::find(begin, end, token) != end;
  }
  const int32_t* everywhere;  // ended by -1, or null
  const int32_t* begin = nullptr;
  const int32_t* end = nullptr;
};

template <typename T>
void top_k(Context& context, const LogSoftmaxTopKArgs& args) {
  using M = Master<T>;
  const int threads = context.pool().threads();
  const int k = args.k;
  need_scratch(context, static_cast<size_t>(threads) * static_cast<size_t>(k) * sizeof(M));
  ArenaScope scope(context.scratch());
  M* all_values = context.scratch().allocate_array<M>(int64_t{threads} * k);
  context.pool().for_ranges(args.logits.rows, kRows, [&](int64_t begin, int64_t end, int thread) {
    M* values = all_values + int64_t{thread} * k;
    for (int64_t r = begin; r < end; ++r) {
      const T* x = args.logits.row<T>(r);
      const Banned banned(args, r);
      Largest<M> best(values, args.indices + r * k, k);
      find_largest(
          x, args.vocab, best, [](M value) { return value; },
          [&](int32_t token) { return !banned.has(token); });
      const double normal = log_sum_exp(x, args.vocab);
      for (int i = 0; i < best.count(); ++i)
        args.values[r * k + i] = static_cast<float>(static_cast<double>(values[i]) - normal);
      std::fill(args.values + r * k + best.count(), args.values + (r + 1) * k,
                -std::numeric_limits<float>::infinity());
      std::fill(args.indices + r * k + best.count(), args.indices + (r + 1) * k, -1);
    }
  });
}

template <typename T>
void log_probabilities(Context& context, const LogProbabilityArgs& args) {
  context.pool().for_ranges(args.logits.rows, kRows, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const int32_t label = args.labels[r];
      VENTRIS_CHECK(label >= 0 && label < args.vocab, "labels[{}] is {}, the vocabulary holds {}", r, label,
                    args.vocab);
      const T* x = args.logits.row<T>(r);
      args.log_probabilities[r] =
          static_cast<float>(static_cast<double>(load(x[label])) - log_sum_exp(x, args.vocab));
    }
  });
}

}  // namespace

void log_softmax_top_k_cpu(Context& context, const LogSoftmaxTopKArgs& args) {
  dispatch_dtype(args.logits.dtype, [&](auto tag) { top_k<decltype(tag)>(context, args); });
}

void log_probability_cpu(Context& context, const LogProbabilityArgs& args) {
  dispatch_dtype(args.logits.dtype, [&](auto tag) { log_probabilities<decltype(tag)>(context, args); });
}

}  // namespace ventris
