#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/kernels_cpu.h"
#include "backend/op_checks.h"
#include "backend/simd_cpu.h"
#include "backend/top_k.h"

namespace ventris {
namespace {

constexpr int64_t kRows = 4;  // rows of one piece of work
constexpr int kBlock = 32;    // columns compared with the k-th best at a time

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

/// The k largest so far, descending; equal ones in order of insertion.
template <typename T>
class Best {
 public:
  using M = Master<T>;
  Best(M* values, int32_t* indices, int k) : values_(values), indices_(indices), k_(k) {}

  bool full() const { return count_ == k_; }
  int count() const { return count_; }
  M smallest() const { return values_[count_ - 1]; }
  bool takes(M value) const { return !full() || value > smallest(); }

  void insert(M value, int32_t index) {
    int at = full() ? k_ - 1 : count_++;
    for (; at > 0 && value > values_[at - 1]; --at) {
      values_[at] = values_[at - 1];
      indices_[at] = indices_[at - 1];
    }
    values_[at] = value;
    indices_[at] = index;
  }

 private:
  M* values_;         // [k]
  int32_t* indices_;  // [k]
  int k_;
  int count_ = 0;
};

template <typename T>
void select(const T* x, int64_t n, const Banned& banned, Best<T>& best) {
  using M = Master<T>;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t end = std::min(n, begin + kBlock);
    if (best.full() && end - begin == kBlock) {
      const M smallest = best.smallest();
      int larger = 0;
#pragma omp simd reduction(| : larger)
      for (int l = 0; l < kBlock; ++l) larger |= load(x[begin + l]) > smallest ? 1 : 0;
      if (larger == 0) continue;
    }
    for (int64_t i = begin; i < end; ++i) {
      const M value = load(x[i]);
      const auto index = static_cast<int32_t>(i);
      if (best.takes(value) && !banned.has(index)) best.insert(value, index);
    }
  }
}

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
      Best<T> best(values, args.indices + r * k, k);
      select<T>(x, args.vocab, Banned(args, r), best);
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
