#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "backend/attention.h"
#include "backend/context.h"
#include "tests/support/device_buffer.h"

namespace ventris {
namespace {

using testing::Buffer;

/// The attention of one layer over a micro-batch of about `tokens` tokens, sentences of about `length`.
struct Shape {
  const char* name;
  int heads;
  int d_head;
  int length;
  int64_t tokens;
};

void run_attention(benchmark::State& state, Shape shape, DType dtype, bool causal, bool backward,
                   float rate) {
  std::mt19937 generator(1);
  std::vector<int32_t> offsets = {0};
  double pairs = 0.0;
  while (offsets.back() < shape.tokens) {
    const int length = shape.length / 2 + static_cast<int>(generator() % static_cast<uint32_t>(shape.length));
    offsets.push_back(offsets.back() + length);
    pairs += causal ? length * (length + 1) / 2 : length * length;
  }
  const int64_t rows = offsets.back();
  const int64_t width = int64_t{shape.heads} * shape.d_head;
  const Buffer qkv = Buffer::random(rows, 3 * width, dtype, 2);
  const Buffer d_out = Buffer::random(rows, width, dtype, 3);
  Buffer out(rows, width, dtype);
  Buffer d_qkv(rows, 3 * width, dtype);
  Buffer log_sum_exp(shape.heads, rows, master_dtype(dtype));
  const int sentences = static_cast<int>(offsets.size()) - 1;
  const float scale = 1.0F / std::sqrt(static_cast<float>(shape.d_head));
  const DropoutPosition position = {.step = 1, .row_base = 0};
  const DropoutKey dropout = {.rate = rate, .seed = 1, .place = 0x100, .position = &position};
  const auto block = [&](int i) { return qkv.view().col_range(i * width, width); };
  const auto d_block = [&](int i) { return d_qkv.view().col_range(i * width, width); };
  Context context({});
  const auto forward = [&] {
    attention_forward(context, {.query = block(0),
                                .key = block(1),
                                .value = block(2),
                                .query_offsets = offsets.data(),
                                .key_offsets = offsets.data(),
                                .sentences = sentences,
                                .heads = shape.heads,
                                .causal = causal,
                                .scale = scale,
                                .dropout = dropout,
                                .out = out.view(),
                                .log_sum_exp = log_sum_exp.view()});
  };
  forward();
  for (auto _ : state) {
    if (backward) {
      attention_backward(context, {.query = block(0),
                                   .key = block(1),
                                   .value = block(2),
                                   .out = out.view(),
                                   .log_sum_exp = log_sum_exp.view(),
                                   .d_out = d_out.view(),
                                   .query_offsets = offsets.data(),
                                   .key_offsets = offsets.data(),
                                   .sentences = sentences,
                                   .heads = shape.heads,
                                   .causal = causal,
                                   .scale = scale,
                                   .dropout = dropout,
                                   .d_query = d_block(0),
                                   .d_key = d_block(1),
                                   .d_value = d_block(2)});
    } else {
      forward();
    }
  }
  const double products = backward ? 5.0 : 2.0;
  state.counters["GFLOP/s"] = benchmark::Counter(2e-9 * products * pairs * static_cast<double>(width),
                                                 benchmark::Counter::kIsIterationInvariantRate);
  state.counters["ns/token"] =
      benchmark::Counter(static_cast<double>(rows) * 1e-9,
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void register_all() {
  for (const Shape& shape :
       {Shape{"tiny", 4, 32, 15, 4096}, Shape{"base", 8, 64, 28, 4096}, Shape{"long", 8, 64, 1000, 4096}}) {
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      for (bool causal : {false, true}) {
        for (bool backward : {false, true}) {
          for (float rate : {0.0F, 0.1F}) {
            const std::string name = std::string("attention/") + shape.name + "/" + name_of(dtype) +
                                     (causal ? "/causal" : "/full") + (backward ? "/backward" : "/forward") +
                                     (rate > 0 ? "/dropout" : "");
            benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
              run_attention(state, shape, dtype, causal, backward, rate);
            })->Unit(benchmark::kMillisecond);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace ventris

int main(int argc, char** argv) {
  ventris::register_all();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
