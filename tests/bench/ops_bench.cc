// SPDX-License-Identifier: Apache-2.0
// Time per element of the operations that are not GEMM, compared with a plain copy of the same bytes, the
// limit set by memory. Counters: `ns/element`, and `of_copy`, the time of a copy of the bytes that the
// operation must read and write, divided by its own time (1 is as fast as memory).

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <vector>

#include "backend/ops.h"

namespace ventris {
namespace {

/// Seconds per byte read or written by memcpy between buffers of that size.
double copy_seconds_per_byte(size_t bytes) {
  const size_t half = std::max<size_t>(bytes / 2, 64);
  std::vector<char> from(half, 1);
  std::vector<char> to(half, 2);
  double best = 1.0;
  for (int trial = 0; trial < 5; ++trial) {
    const int repeats = static_cast<int>(1 + (size_t{1} << 25) / half);
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < repeats; ++i) {
      std::memcpy(to.data(), from.data(), half);
      benchmark::DoNotOptimize(to.data());
      benchmark::ClobberMemory();
    }
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    best = std::min(best, taken.count() / (static_cast<double>(repeats) * 2.0 * static_cast<double>(half)));
  }
  return best;
}

void report(benchmark::State& state, int64_t elements, double bytes_per_element) {
  const double bytes = bytes_per_element * static_cast<double>(elements);
  const double copy = copy_seconds_per_byte(static_cast<size_t>(bytes)) * bytes;
  state.counters["ns/element"] =
      benchmark::Counter(static_cast<double>(elements) * 1e-9,
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["of_copy"] = benchmark::Counter(copy, benchmark::Counter::kIsIterationInvariantRate);
}

/// A tensor of normally distributed numbers that owns its memory.
class Data {
 public:
  Data(int64_t rows, int64_t cols, DType dtype)
      : arena_(Device::kCpu, static_cast<size_t>(rows * cols) * size_of(dtype) + 256),
        tensor_(arena_.allocate(rows, cols, dtype)) {
    std::minstd_rand generator(1);
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < rows * cols; ++i) {
      const float value = normal(generator);
      if (dtype == DType::kF32) tensor_.as<float>()[i] = value;
      if (dtype == DType::kBF16) tensor_.as<BF16>()[i] = BF16(value);
    }
  }
  Tensor view() const { return tensor_; }

 private:
  Arena arena_;
  Tensor tensor_;
};

DType dtype_of(const benchmark::State& state) {
  return state.range(0) == 16 ? DType::kBF16 : DType::kF32;
}

constexpr int64_t kRows = 2048;

void layer_norm(benchmark::State& state, bool forward) {
  const DType dtype = dtype_of(state);
  const int64_t d = state.range(1);
  Context context({});
  const Data x(kRows, d, dtype), residual(kRows, d, dtype), sum(kRows, d, dtype), y(kRows, d, dtype);
  const Data gamma(1, d, DType::kF32), beta(1, d, DType::kF32), bias(1, d, DType::kF32);
  const Data mean(1, kRows, DType::kF32), rstd(1, kRows, DType::kF32);
  const DropoutPosition mask_position = {};
  const DropoutKey key = {
      .rate = static_cast<float>(state.range(2)) * 0.01F, .seed = 1, .position = &mask_position};
  for (auto _ : state) {
    if (forward) {
      layer_norm_forward(context, {.x = x.view(),
                                   .residual = residual.view(),
                                   .dropout = key,
                                   .gamma = gamma.view(),
                                   .beta = beta.view(),
                                   .sum = sum.view(),
                                   .mean = mean.view(),
                                   .rstd = rstd.view(),
                                   .y = y.view()});
    } else {
      layer_norm_backward(context, {.d_y = y.view(),
                                    .sum = sum.view(),
                                    .mean = mean.view(),
                                    .rstd = rstd.view(),
                                    .gamma = gamma.view(),
                                    .dropout = key,
                                    .d_residual = residual.view(),
                                    .d_x = x.view(),
                                    .d_gamma = gamma.view(),
                                    .d_beta = beta.view(),
                                    .d_bias = bias.view()});
    }
  }
  report(state, kRows * d, 4.0 * static_cast<double>(size_of(dtype)));
}
void layer_norm_forward_bench(benchmark::State& state) {
  layer_norm(state, true);
}
void layer_norm_backward_bench(benchmark::State& state) {
  layer_norm(state, false);
}

void cross_entropy_bench(benchmark::State& state) {
  const DType dtype = dtype_of(state);
  const int64_t vocab = state.range(1);
  constexpr int64_t kTokens = 512;
  Context context({});
  const Data logits(kTokens, vocab, dtype), loss(1, kTokens, DType::kF32), nll(1, kTokens, DType::kF32);
  std::vector<int32_t> labels(kTokens);
  for (int64_t t = 0; t < kTokens; ++t) labels[static_cast<size_t>(t)] = static_cast<int32_t>(t * 19 % vocab);
  const float scale = 1.0F;
  const int32_t tokens = kTokens;
  for (auto _ : state) {
    cross_entropy(context, {.logits = logits.view(),
                            .labels = labels.data(),
                            .weights = nullptr,
                            .tokens = &tokens,
                            .vocab = vocab,
                            .smoothing = 0.1F,
                            .gradient = true,
                            .gradient_scale = &scale,
                            .loss = loss.view(),
                            .nll = nll.view()});
  }
  report(state, kTokens * vocab, 2.0 * static_cast<double>(size_of(dtype)));
}

void top_k_bench(benchmark::State& state) {
  const DType dtype = dtype_of(state);
  const int64_t vocab = state.range(1);
  constexpr int64_t kHypotheses = 256;
  Context context({});
  const Data logits(kHypotheses, vocab, dtype);
  std::vector<float> values(kHypotheses * 8);
  std::vector<int32_t> indices(kHypotheses * 8);
  for (auto _ : state) {
    log_softmax_top_k(context, {.logits = logits.view(),
                                .vocab = vocab,
                                .k = 8,
                                .values = values.data(),
                                .indices = indices.data()});
  }
  report(state, kHypotheses * vocab, static_cast<double>(size_of(dtype)));
}

void embedding(benchmark::State& state, bool forward) {
  const DType dtype = dtype_of(state);
  const int64_t d = state.range(1);
  constexpr int64_t kVocab = 10112;
  Context context({});
  const Data table(kVocab, d, forward ? dtype : DType::kF32), positions(256, d, DType::kF32),
      out(kRows, d, dtype);
  std::vector<int32_t> ids(kRows);
  std::vector<int32_t> position(kRows);
  for (size_t t = 0; t < ids.size(); ++t) {
    ids[t] = static_cast<int32_t>(t * 7919 % kVocab);
    position[t] = static_cast<int32_t>(t % 256);
  }
  const DropoutPosition mask_position = {};
  const DropoutKey key = {
      .rate = static_cast<float>(state.range(2)) * 0.01F, .seed = 1, .position = &mask_position};
  for (auto _ : state) {
    if (forward) {
      embedding_forward(context, {.ids = ids.data(),
                                  .position = position.data(),
                                  .table = table.view(),
                                  .positions = positions.view(),
                                  .scale = 1.0F,
                                  .zero_start = false,
                                  .dropout = key,
                                  .out = out.view()});
    } else {
      embedding_backward(context, {.ids = ids.data(),
                                   .position = position.data(),
                                   .d_out = out.view(),
                                   .scale = 1.0F,
                                   .zero_start = false,
                                   .dropout = key,
                                   .d_table = table.view()});
    }
  }
  const double bytes = static_cast<double>(size_of(dtype));
  report(state, kRows * d, forward ? 2.0 * bytes + 4.0 : bytes + 8.0);
}
void embedding_forward_bench(benchmark::State& state) {
  embedding(state, true);
}
void embedding_backward_bench(benchmark::State& state) {
  embedding(state, false);
}

void adam_bench(benchmark::State& state) {
  const bool compute = dtype_of(state) == DType::kBF16;
  const int64_t n = state.range(1);
  Context context({});
  const Data value(1, n, DType::kF32), gradient(1, n, DType::kF32), copy(1, n, DType::kBF16);
  const Data m(1, n, DType::kF32), v(1, n, DType::kF32);
  for (int64_t i = 0; i < n; ++i) v.view().as<float>()[i] = 1.0F;
  const AdamScalars scalars = {1e-4F, 1.0F, 0.5F, 0.5F};
  for (auto _ : state) {
    adam(context, {.value = value.view(),
                   .gradient = gradient.view(),
                   .m = m.view(),
                   .v = v.view(),
                   .compute = compute ? copy.view() : Tensor{},
                   .scalars = &scalars});
  }
  report(state, n, compute ? 30.0 : 28.0);
}

void sum_of_squares_bench(benchmark::State& state) {
  const int64_t n = state.range(0);
  Context context({});
  const Data x(1, n, DType::kF32);
  double result = 0.0;
  for (auto _ : state) sum_of_squares(context, {.x = x.view(), .result = &result});
  report(state, n, 4.0);
}

// Arguments: bits of the activations, columns, percentage of dropout.
BENCHMARK(layer_norm_forward_bench)->Name("layer_norm_forward")->ArgsProduct({{32, 16}, {128, 512}, {0, 10}});
BENCHMARK(layer_norm_backward_bench)
    ->Name("layer_norm_backward")
    ->ArgsProduct({{32, 16}, {128, 512}, {0, 10}});
BENCHMARK(embedding_forward_bench)->Name("embedding_forward")->ArgsProduct({{32, 16}, {128, 512}, {0, 10}});
BENCHMARK(embedding_backward_bench)->Name("embedding_backward")->ArgsProduct({{32, 16}, {128, 512}, {0, 10}});
BENCHMARK(cross_entropy_bench)->Name("cross_entropy")->ArgsProduct({{32, 16}, {10112, 37000}});
BENCHMARK(top_k_bench)->Name("log_softmax_top_k")->ArgsProduct({{32, 16}, {10112, 37000}});
BENCHMARK(adam_bench)->Name("adam")->ArgsProduct({{32, 16}, {1 << 21, 1 << 24}});
BENCHMARK(sum_of_squares_bench)->Name("sum_of_squares")->Arg(1 << 21)->Arg(1 << 24);

}  // namespace
}  // namespace ventris
