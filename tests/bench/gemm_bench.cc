// SPDX-License-Identifier: Apache-2.0
// The rate of large square products of oneDNN itself on one thread, with which tests/bench/train_bench.py
// compares that of training. Prints a JSON object: GFLOP/s of CPU time, the best of several repetitions, for
// each dtype, or null where oneDNN has no product of it for this processor.
#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <dnnl.hpp>
#include <string>

#include "backend/device/arena.h"
#include "backend/device/thread_pool.h"

namespace ventris {
namespace {

double thread_cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Matrix {
  Matrix(int64_t size, DType dtype)
      : arena(Device::kCpu, static_cast<size_t>(size * size) * size_of(dtype)),
        view(arena.allocate(size, size, dtype)) {
    for (int64_t i = 0; i < size * size; ++i) {
      const float value = 0.01F * static_cast<float>(i % 13 - 6);
      if (dtype == DType::kF32) view.as<float>()[i] = value;
      if (dtype == DType::kBF16) view.as<BF16>()[i] = BF16(value);
    }
  }

  Arena arena;
  Tensor view;
};

/// 0 if there is no such product.
double rate_of(DType dtype, int64_t size) {
  Matrix a(size, dtype), b(size, dtype), c(size, dtype);
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

std::string large_rate(DType dtype) {
  const double rate = std::max({rate_of(dtype, 2048), rate_of(dtype, 3072), rate_of(dtype, 4096)});
  return rate == 0.0 ? "null" : fmt::format("{}", rate);
}

}  // namespace
}  // namespace ventris

int main() {
  using namespace ventris;
  fmt::print("{{\"f32\": {}, \"bf16\": {}}}\n", large_rate(DType::kF32), large_rate(DType::kBF16));
  return 0;
}
