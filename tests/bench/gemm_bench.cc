// SPDX-License-Identifier: Apache-2.0
// Rates of gemm() at the shapes of training, relative to the best large square product of oneDNN itself of
// the same dtype in the same run ("of_large"). One thread; rates are per second of CPU time, the best of
// several repetitions, so that other programs on the machine have little effect.
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <dnnl.hpp>
#include <string>
#include <vector>

#include "backend/gemm.h"
#include "backend/packed_gemm.h"

namespace ventris {
namespace {

double thread_cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Matrix {
  Matrix(int64_t rows, int64_t cols, DType dtype)
      : arena(Device::kCpu, static_cast<size_t>(rows * cols) * size_of(dtype)),
        view(arena.allocate(rows, cols, dtype)) {
    for (int64_t i = 0; i < rows * cols; ++i) {
      const float value = 0.01F * static_cast<float>(i % 13 - 6);
      if (dtype == DType::kF32) view.as<float>()[i] = value;
      if (dtype == DType::kBF16) view.as<BF16>()[i] = BF16(value);
    }
  }

  Arena arena;
  Tensor view;
};

// GFLOP/s of a square product by oneDNN itself, the best of a few; 0 if it has none for this processor.
double square_rate(DType dtype, int64_t size) {
  Matrix a(size, size, dtype);
  Matrix b(size, size, dtype);
  Matrix c(size, size, dtype);
  const ThreadPool one_thread(1);
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const auto type = dtype == DType::kBF16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
  const dnnl::memory::desc desc({size, size}, type, dnnl::memory::format_tag::ab);
  dnnl::matmul product;
  try {
#if DNNL_VERSION_MAJOR >= 3
    product = dnnl::matmul(dnnl::matmul::primitive_desc(engine, desc, desc, desc));
#else
    product = dnnl::matmul(dnnl::matmul::primitive_desc(dnnl::matmul::desc(desc, desc, desc), engine));
#endif
  } catch (const dnnl::error& error) {
    if (error.status != dnnl_unimplemented) throw;
    return 0.0;
  }
  const double flop = 2.0 * static_cast<double>(size * size * size);
  double best = 0.0;
  for (int repetition = 0; repetition < 5; ++repetition) {
    const double begin = thread_cpu_seconds();
    product.execute(stream, {{DNNL_ARG_SRC, dnnl::memory(desc, engine, a.view.data)},
                             {DNNL_ARG_WEIGHTS, dnnl::memory(desc, engine, b.view.data)},
                             {DNNL_ARG_DST, dnnl::memory(desc, engine, c.view.data)}});
    best = std::max(best, 1e-9 * flop / (thread_cpu_seconds() - begin));
  }
  return best;
}

double large_rate(DType dtype) {
  static std::vector<std::pair<DType, double>> known;
  for (const auto& [measured, rate] : known) {
    if (measured == dtype) return rate;
  }
  known.emplace_back(
      dtype, std::max({square_rate(dtype, 2048), square_rate(dtype, 3072), square_rate(dtype, 4096)}));
  return known.back().second;
}

const char* no_product() {
  return "oneDNN has no product of this dtype for this processor's instructions";
}

enum class Form { kForward, kDataGradient, kWeightGradient, kLogits };

// `in` and `out` are the dimensions of the weights [in, out]; for logits, E is [out, in].
void measure(benchmark::State& state, Form form, DType dtype, int64_t tokens, int64_t in, int64_t out) {
  Context context({.threads = 1});
  const bool weight_gradient = form == Form::kWeightGradient;
  const bool logits = form == Form::kLogits;
  Matrix x(tokens, in, dtype);
  Matrix y(tokens, out, dtype);
  Matrix weights(logits ? out : in, logits ? in : out, dtype);
  Matrix gradient(in, out, DType::kF32);
  Matrix bias(1, out, DType::kF32);
  GemmArgs args{.a = x.view, .b = weights.view, .c = y.view};
  if (form == Form::kForward) args.bias = bias.view;
  if (logits) args.transpose_b = true;
  if (form == Form::kDataGradient) args = {.a = y.view, .b = weights.view, .c = x.view, .transpose_b = true};
  if (weight_gradient) {
    args = {.a = x.view, .b = y.view, .c = gradient.view, .transpose_a = true, .accumulate = true};
  }
  const double large = large_rate(dtype);
  if (large == 0.0) return state.SkipWithError(no_product());
  gemm(context, args);
  const double flop = 2.0 * static_cast<double>(tokens * in * out);
  std::vector<double> rates;
  for (auto _ : state) {
    const double begin = thread_cpu_seconds();
    gemm(context, args);
    const double seconds = thread_cpu_seconds() - begin;
    rates.push_back(1e-9 * flop / seconds);
    state.SetIterationTime(seconds);
  }
  std::sort(rates.begin(), rates.end());
  state.counters["GFLOPs_best"] = rates.back();
  state.counters["GFLOPs_median"] = rates[rates.size() / 2];
  state.counters["large"] = large;
  state.counters["of_large"] = rates[rates.size() / 2] / large;
}

// packed_gemm() relative to gemm() with the same weights, alternating ("of_gemm"; omitted if oneDNN has no
// such product for gemm()). int8 is compared with f32.
void measure_packed(benchmark::State& state, Packing packing, int64_t rows, int64_t in, int64_t out) {
  const DType dtype = factor_dtype(packing);
  Context context({.threads = 1});
  Matrix x(rows, in, dtype);
  Matrix y(rows, out, dtype);
  Matrix weights(in, out, dtype);
  Matrix masters(in, out, DType::kF32);
  Arena memory(Device::kCpu, packed_bytes(in, out, packing));
  const PackedMatrix packed{memory.allocate(packed_bytes(in, out, packing)), in, out, packing};
  pack(context, {.source = masters.view, .to = packed});
  const int64_t product = rows * in * out;
  const int64_t repetitions = std::max<int64_t>(1, (int64_t{1} << 26) / product);
  const auto seconds_of = [&](auto&& multiply) {
    multiply();
    const double begin = thread_cpu_seconds();
    for (int64_t i = 0; i < repetitions; ++i) multiply();
    return (thread_cpu_seconds() - begin) / static_cast<double>(repetitions);
  };
  std::vector<double> rates;
  std::vector<double> ratios;
  const bool compared = square_rate(dtype, 64) != 0.0;
  for (auto _ : state) {
    const double of_gemm =
        compared ? seconds_of([&] { gemm(context, {.a = x.view, .b = weights.view, .c = y.view}); }) : 0.0;
    const double seconds = seconds_of([&] { packed_gemm(context, {.a = x.view, .b = packed, .c = y.view}); });
    rates.push_back(2e-9 * static_cast<double>(product) / seconds);
    ratios.push_back(of_gemm / seconds);
    state.SetIterationTime(seconds);
  }
  std::sort(rates.begin(), rates.end());
  std::sort(ratios.begin(), ratios.end());
  state.counters["GFLOPs_median"] = rates[rates.size() / 2];
  if (compared) state.counters["of_gemm"] = ratios[ratios.size() / 2];
}

int register_all() {
  struct Layer {
    const char* name;
    int64_t in;
    int64_t out;
  };
  const Layer layers[] = {{"tiny qkv", 128, 384},    {"tiny projection", 128, 128},
                          {"tiny ff in", 128, 256},  {"tiny ff out", 256, 128},
                          {"base qkv", 512, 1536},   {"base projection", 512, 512},
                          {"base ff in", 512, 2048}, {"base ff out", 2048, 512}};
  const Layer vocabularies[] = {
      {"tiny logits", 128, 10112}, {"base logits", 512, 10112}, {"base logits", 512, 36992}};
  const auto add = [](const Layer& layer, const char* form_name, Form form, DType dtype, int64_t tokens,
                      int64_t in, int64_t out) {
    const std::string name = std::string(name_of(dtype)) + "/" + layer.name + "/" + form_name + "/" +
                             std::to_string(tokens) + "x" + std::to_string(in) + "x" + std::to_string(out);
    benchmark::RegisterBenchmark(name.c_str(), measure, form, dtype, tokens, in, out)
        ->UseManualTime()
        ->MinTime(0.15);
  };
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t tokens : {500, 1024, 2753}) {
      for (const Layer& layer : layers) {
        add(layer, "forward", Form::kForward, dtype, tokens, layer.in, layer.out);
        add(layer, "data gradient", Form::kDataGradient, dtype, tokens, layer.in, layer.out);
        add(layer, "weight gradient", Form::kWeightGradient, dtype, tokens, layer.in, layer.out);
      }
      for (const Layer& layer : vocabularies) {
        add(layer, "forward", Form::kLogits, dtype, tokens, layer.in, layer.out);
        // The gradient of h is dlogits [tokens, vocab] times E [vocab, d], and that of E is dlogits^T h.
        add(layer, "data gradient", Form::kForward, dtype, tokens, layer.out, layer.in);
        add(layer, "weight gradient", Form::kWeightGradient, dtype, tokens, layer.out, layer.in);
      }
    }
  }
  for (const Packing packing : {Packing::kF32, Packing::kBF16, Packing::kInt8}) {
    for (const auto& [in, out] :
         {std::pair<int64_t, int64_t>{128, 384}, {512, 512}, {512, 2048}, {2048, 512}, {512, 10112}}) {
      for (const int64_t rows : {1, 4, 32, 128, 1024}) {
        const std::string name = std::string(name_of(packing)) + "/packed/" + std::to_string(rows) + "x" +
                                 std::to_string(in) + "x" + std::to_string(out);
        benchmark::RegisterBenchmark(name.c_str(), measure_packed, packing, rows, in, out)
            ->UseManualTime()
            ->Iterations(9);
      }
    }
  }
  return 0;
}

const int registered = register_all();

}  // namespace
}  // namespace ventris
