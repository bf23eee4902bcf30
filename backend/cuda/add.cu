// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "backend/cuda/add.cuh"
#include "backend/cuda/elements.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/ops/add.h"

namespace ventris {
namespace {

using namespace cuda;

constexpr int kAddThreads = 256;
constexpr int kMaxSteps = 128;  // of a launch, whose parameters are then 3 KiB of 4

/// Elements of a thread: 16 bytes.
template <typename T>
struct alignas(16) Lanes {
  static constexpr int kCount = static_cast<int>(16 / sizeof(T));
  T v[kCount];
};

template <typename T>
struct Steps {
  struct Step {
    const T* term;
    T* sum;
    int additions;
  };
  Step step[kMaxSteps];
  int count;
};

template <bool kVectors, typename T>
__device__ __forceinline__ Lanes<T> load_lanes(const T* row, int64_t begin, int64_t count) {
  if (kVectors && begin + Lanes<T>::kCount <= count) return *reinterpret_cast<const Lanes<T>*>(row + begin);
  Lanes<T> lanes;
  for (int i = 0; i < Lanes<T>::kCount; ++i) lanes.v[i] = begin + i < count ? row[begin + i] : T{0};
  return lanes;
}
template <bool kVectors, typename T>
__device__ __forceinline__ void store_lanes(T* row, int64_t begin, int64_t count, const Lanes<T>& lanes) {
  if (kVectors && begin + Lanes<T>::kCount <= count) {
    *reinterpret_cast<Lanes<T>*>(row + begin) = lanes;
  } else {
    for (int i = 0; i < Lanes<T>::kCount && begin + i < count; ++i) row[begin + i] = lanes.v[i];
  }
}

/// One thread: 16 bytes of every term and sum. It keeps its incomplete sums but the newest in shared memory,
/// which no other thread reads. Grid: n / (16 bytes * kAddThreads); shared: 16 bytes a thread for each.
template <typename T, bool kVectors>
__global__ void __launch_bounds__(kAddThreads) add_terms(Steps<T> steps, int64_t count) {
  const int64_t begin = (int64_t{blockIdx.x} * kAddThreads + threadIdx.x) * Lanes<T>::kCount;
  if (begin >= count) return;
  Lanes<T>* const first = dynamic_shared<Lanes<T>>() + threadIdx.x;
  Lanes<T>* end = first;
  for (int s = 0; s < steps.count; ++s) {
    Lanes<T> newest = load_lanes<kVectors>(steps.step[s].term, begin, count);
    for (int addition = 0; addition < steps.step[s].additions; ++addition) {
      end -= kAddThreads;
      for (int i = 0; i < Lanes<T>::kCount; ++i) newest.v[i] = end->v[i] + newest.v[i];
    }
    if (steps.step[s].sum == nullptr) {
      *end = newest;
      end += kAddThreads;
    } else {
      store_lanes<kVectors>(steps.step[s].sum, begin, count, newest);
    }
  }
}

template <typename T>
void launch_steps(cudaStream_t stream, const AddStep* first, size_t count) {
  Steps<T> steps = {};
  steps.count = static_cast<int>(count);
  bool vectors = true;
  int kept = 0;
  int most_kept = 0;
  for (int s = 0; s < steps.count; ++s) {
    const AddStep& step = first[s];
    steps.step[s] = {step.term.as<T>(), step.sum ? step.sum.as<T>() : nullptr, step.additions};
    vectors = vectors && all_vectors_fit(step.term, step.sum);
    kept += step.sum ? -step.additions : 1 - step.additions;
    most_kept = std::max(most_kept, kept);
  }
  const int64_t elements = first->term.cols;
  dispatch_flag(vectors, [&](auto fit) {
    launch({.name = "add_terms",
            .grid = blocks_for(elements, int64_t{Lanes<T>::kCount} * kAddThreads),
            .block = kAddThreads,
            .shared_bytes = static_cast<size_t>(most_kept) * kAddThreads * sizeof(Lanes<T>)},
           stream, add_terms<T, decltype(fit)::value>, steps, elements);
  });
}

/// The steps of a sum, of which some may have been done already: their terms are one.
class Pending {
 public:
  explicit Pending(cudaStream_t stream) : stream_(stream) {}

  void push(const Tensor& term) {
    begins_.push_back(steps_.size());
    steps_.push_back({.term = term, .additions = 0});
  }
  void add_newest() {
    const size_t older = begins_.size() - 2;
    while (steps_.size() - begins_[older] > kMaxSteps) {
      const size_t middle = begins_[older + 1];
      if (middle - begins_[older] > steps_.size() - middle) {
        replace(begins_[older], middle);
        begins_[older + 1] = begins_[older] + 1;
      } else {
        replace(middle, steps_.size());
      }
    }
    ++steps_.back().additions;
    begins_.pop_back();
  }
  /// Completes the only sum.
  void complete(const Tensor& sum) {
    steps_.back().sum = sum;
    begins_.clear();
    if (steps_.size() > kMaxSteps) launch_complete();
    complete_ = steps_.size();
  }
  void launch_complete() {
    launch_range(0, complete_);
    steps_.erase(steps_.begin(), steps_.begin() + static_cast<std::ptrdiff_t>(complete_));
    complete_ = 0;
  }

 private:
  /// Launches the steps of a partial sum, which then is the last of their terms.
  void replace(size_t begin, size_t end) {
    const Tensor place = steps_[end - 1].term;
    steps_[end - 1].sum = place;
    launch_range(begin, end);
    steps_[begin] = {.term = place, .additions = 0};
    steps_.erase(steps_.begin() + static_cast<std::ptrdiff_t>(begin) + 1,
                 steps_.begin() + static_cast<std::ptrdiff_t>(end));
  }
  void launch_range(size_t begin, size_t end) {
    if (begin == end) return;
    if (steps_[begin].term.dtype == DType::kF64) {
      launch_steps<double>(stream_, &steps_[begin], end - begin);
    } else {
      launch_steps<float>(stream_, &steps_[begin], end - begin);
    }
  }

  cudaStream_t stream_;
  std::vector<AddStep> steps_;
  size_t complete_ = 0;         // of steps_: those of complete sums
  std::vector<size_t> begins_;  // of the partial sums that are incomplete, in steps_
};

}  // namespace

void cuda::add_in_stream(cudaStream_t stream, const AddArgs& args) {
  Pending pending(stream);
  for (const AddStep& step : args.steps) {
    pending.push(step.term);
    for (int addition = 0; addition < step.additions; ++addition) pending.add_newest();
    if (step.sum) pending.complete(step.sum);
  }
  pending.launch_complete();
}

void add_cuda(Context& context, const AddArgs& args) {
  cuda::add_in_stream(stream_of(context), args);
}

}  // namespace ventris
