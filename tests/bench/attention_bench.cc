// SPDX-License-Identifier: Apache-2.0
// Time of attention on the CPU or on a GPU (there between events of the stream), forward and backward, for
// random lengths around a mean, or for those of given sentences, or of matrix products:
//   attention_bench [--device cpu|cuda] [--pairs FILE | --products FILE] [options of Google Benchmark]
// --pairs: a line "source target" with the tokens of each sentence pair of a batch. The three attentions of
// a layer are measured, forward plus backward, in bf16: in the encoder, in the decoder, and between them.
// --products: a line "m n k form" for each product [m, k] [k, n] of bf16; form is nn, nt or tn (t: that
// factor is transposed; tn has a result in f32, as gradients of weights), then + if the product is added to
// its result. Each is measured alone, and before them a copy of memory.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "backend/add.h"
#include "backend/attention.h"
#include "backend/context.h"
#include "backend/device.h"
#include "backend/gemm.h"
#include "backend/profile.h"
#include "backend/transfer.h"

namespace ventris {
namespace {

enum class Passes { kForward, kBackward, kBoth };

/// The queries and keys of an attention.
struct Sides {
  std::vector<int32_t> query_offsets;
  std::vector<int32_t> key_offsets;  // empty: the queries' own
  bool causal = false;

  bool self() const { return key_offsets.empty(); }
  const std::vector<int32_t>& keys() const { return self() ? query_offsets : key_offsets; }
  int sentences() const { return static_cast<int>(query_offsets.size()) - 1; }
  /// Scores that are not masked.
  double scores() const {
    double sum = 0.0;
    for (size_t s = 0; s + 1 < query_offsets.size(); ++s) {
      const double queries = query_offsets[s + 1] - query_offsets[s];
      const double seen = keys()[s + 1] - keys()[s];
      sum += causal ? queries * (queries + 1) / 2 : queries * seen;
    }
    return sum;
  }
};

struct Shape {
  std::string name;
  int heads;
  int d_head;
};

/// One attention of a layer with its memory: queries, keys and values are blocks of columns, as in the model.
class Attention {
 public:
  Attention(Context& context, const Sides& sides, const Shape& shape, DType dtype, float rate)
      : context_(context), sides_(sides), shape_(shape), dtype_(dtype), rate_(rate) {
    Arena measure;
    plan(measure);
    memory_.emplace(context.device(), measure.high_water(), "attention");
    plan(*memory_);
    for (const Tensor& tensor : {query_, key_, d_out_}) fill(tensor);
    const DropoutPosition position = {.step = 1, .row_base = 0};
    copy_to_device(context_, position_, &position, sizeof(position));
    for (const auto& [to, from] :
         {std::pair(query_offsets_, &sides_.query_offsets), {key_offsets_, &sides_.keys()}}) {
      copy_to_device(context_, to, from->data(), from->size() * sizeof(int32_t));
    }
    list_attention_work(context_, {.query_offsets = query_offsets_,
                                   .key_offsets = key_offsets_,
                                   .sentences = sides_.sentences(),
                                   .work = work_});
    forward();
    backward();
  }

  void forward() {
    attention_forward(context_, {.query = block(query_, 0),
                                 .key = block(key_, 1),
                                 .value = block(key_, 2),
                                 .query_offsets = query_offsets_,
                                 .key_offsets = key_offsets_,
                                 .sentences = sides_.sentences(),
                                 .heads = shape_.heads,
                                 .causal = sides_.causal,
                                 .scale = scale(),
                                 .dropout = dropout(),
                                 .work = work_,
                                 .out = out_,
                                 .log_sum_exp = log_sum_exp_});
  }
  void backward() {
    attention_backward(context_, {.query = block(query_, 0),
                                  .key = block(key_, 1),
                                  .value = block(key_, 2),
                                  .out = out_,
                                  .log_sum_exp = log_sum_exp_,
                                  .d_out = d_out_,
                                  .query_offsets = query_offsets_,
                                  .key_offsets = key_offsets_,
                                  .sentences = sides_.sentences(),
                                  .heads = shape_.heads,
                                  .causal = sides_.causal,
                                  .scale = scale(),
                                  .dropout = dropout(),
                                  .work = work_,
                                  .d_query = block(d_query_, 0),
                                  .d_key = block(d_key_, 1),
                                  .d_value = block(d_key_, 2)});
  }
  /// Seconds of one call of each, the mean over `calls`.
  double seconds(Passes passes, int calls) {
    Profile& profile = context_.profile();
    profile.clear();
    profile.begin_step();
    for (int i = 0; i < calls; ++i) {
      if (passes != Passes::kBackward) forward();
      if (passes != Passes::kForward) backward();
    }
    profile.end_step();
    return profile.step_seconds() / calls;
  }
  int64_t rows() const { return sides_.query_offsets.back(); }
  /// Multiplications and additions of the products.
  double flops(Passes passes) const {
    const double products = passes == Passes::kForward ? 2 : passes == Passes::kBackward ? 5 : 7;
    return 2.0 * products * sides_.scores() * static_cast<double>(width());
  }

 private:
  int64_t width() const { return int64_t{shape_.heads} * shape_.d_head; }
  float scale() const { return 1.0F / std::sqrt(static_cast<float>(shape_.d_head)); }
  Tensor block(const Tensor& tensor, int i) const { return tensor.col_range(i * width(), width()); }
  DropoutKey dropout() const { return {.rate = rate_, .seed = 1, .place = 0x100, .position = position_}; }

  void plan(Arena& arena) {
    const int64_t key_rows = sides_.keys().back();
    const auto pair = [&](Tensor& queries, Tensor& keys) {
      queries = arena.allocate(rows(), 3 * width(), dtype_);
      keys = sides_.self() ? queries : arena.allocate(key_rows, 3 * width(), dtype_);
    };
    pair(query_, key_);
    pair(d_query_, d_key_);
    out_ = arena.allocate(rows(), width(), dtype_);
    d_out_ = arena.allocate(rows(), width(), dtype_);
    log_sum_exp_ = arena.allocate(shape_.heads, rows(), master_dtype(dtype_));
    query_offsets_ = arena.allocate_array<int32_t>(sides_.sentences() + 1);
    key_offsets_ = arena.allocate_array<int32_t>(sides_.sentences() + 1);
    position_ = arena.allocate_array<DropoutPosition>(1);
    work_ = plan_attention_work(arena, context_.device(), dtype_, sides_.sentences(), rows(), key_rows);
  }
  /// Uniformly distributed numbers in [-1, 1].
  void fill(const Tensor& tensor) {
    std::minstd_rand generator(1);
    std::vector<char> bytes(static_cast<size_t>(tensor.size()) * size_of(tensor.dtype));
    for (int64_t i = 0; i < tensor.size(); ++i) {
      const float value = static_cast<float>(generator()) * 0x1p-30F - 1.0F;
      if (tensor.dtype == DType::kBF16) {
        reinterpret_cast<BF16*>(bytes.data())[i] = BF16(value);
      } else {
        reinterpret_cast<float*>(bytes.data())[i] = value;
      }
    }
    copy_to_device(context_, tensor.data, bytes.data(), bytes.size());
  }

  Context& context_;
  const Sides sides_;
  const Shape shape_;
  const DType dtype_;
  const float rate_;
  std::optional<Arena> memory_;
  Tensor query_, key_, d_query_, d_key_, out_, d_out_, log_sum_exp_;
  int32_t* query_offsets_ = nullptr;
  int32_t* key_offsets_ = nullptr;
  DropoutPosition* position_ = nullptr;
  AttentionWork work_;
};

struct Case {
  std::string name;
  Sides sides;
  Shape shape;
  DType dtype;
  Passes passes;
  float rate;
};

void run(benchmark::State& state, Device device, const Case& c) {
  Context context({.device = device});
  Attention attention(context, c.sides, c.shape, c.dtype, c.rate);
  const int calls = device == Device::kCpu ? 1 : 10;  // so that the host stays ahead of the device
  for (auto _ : state) state.SetIterationTime(attention.seconds(c.passes, calls));
  state.counters["GFLOP/s"] =
      benchmark::Counter(1e-9 * attention.flops(c.passes), benchmark::Counter::kIsIterationInvariantRate);
  state.counters["ns/token"] =
      benchmark::Counter(static_cast<double>(attention.rows()) * 1e-9,
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void add(Device device, const Case& c) {
  const std::string name = "attention/" + c.name + (c.rate > 0 ? "/dropout" : "");
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) { run(state, device, c); })
      ->Unit(benchmark::kMillisecond)
      ->UseManualTime();
}

/// Sentences of about `length` tokens, `tokens` in total.
Sides made_up(int length, int64_t tokens, bool causal) {
  std::mt19937 generator(1);
  Sides sides{.query_offsets = {0}, .key_offsets = {}, .causal = causal};
  while (sides.query_offsets.back() < tokens) {
    const int sentence = length / 2 + static_cast<int>(generator() % static_cast<uint32_t>(length));
    sides.query_offsets.push_back(sides.query_offsets.back() + sentence);
  }
  return sides;
}

void add_made_up(Device device) {
  const auto both = [&](const Shape& shape, int length) {
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      for (bool causal : {false, true}) {
        for (Passes passes : {Passes::kForward, Passes::kBackward}) {
          for (float rate : {0.0F, 0.1F}) {
            const std::string name = shape.name + "/" + name_of(dtype) + (causal ? "/causal" : "/full") +
                                     (passes == Passes::kBackward ? "/backward" : "/forward");
            add(device, {name, made_up(length, 4096, causal), shape, dtype, passes, rate});
          }
        }
      }
    }
  };
  both({"tiny", 4, 32}, 15);
  both({"base", 8, 64}, 28);
  both({"long", 8, 64}, 1000);
}

bool add_pairs(Device device, const std::string& path) {
  std::ifstream file(path);
  std::vector<int32_t> source = {0};
  std::vector<int32_t> target = {0};
  for (int32_t tokens[2]; file >> tokens[0] >> tokens[1];) {
    if (tokens[0] < 1 || tokens[1] < 1 || tokens[0] > 65536 || tokens[1] > 65536 || source.size() > 65536)
      return false;
    source.push_back(source.back() + tokens[0]);
    target.push_back(target.back() + tokens[1]);
  }
  if (!file.eof() || source.size() == 1) return false;
  for (const Shape& shape : {Shape{"base", 8, 64}, Shape{"big", 16, 64}}) {
    for (const float rate : {0.0F, 0.1F}) {
      const auto add_sides = [&](const char* name, const Sides& sides) {
        add(device, {shape.name + "/" + name, sides, shape, DType::kBF16, Passes::kBoth, rate});
      };
      add_sides("encoder", {source, {}, false});
      add_sides("decoder", {target, {}, true});
      add_sides("cross", {target, source, false});
    }
  }
  return true;
}

/// [m, k] [k, n]
struct Product {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  std::string form;

  bool read(std::istream& file) { return static_cast<bool>(file >> m >> n >> k >> form); }
  bool valid() const {
    const int64_t most = 1 << 20;
    const bool known = form.substr(0, 2) == "nn" || form.substr(0, 2) == "nt" || form.substr(0, 2) == "tn";
    return std::min({m, n, k}) > 0 && std::max({m, n, k}) <= most && known &&
           (form.size() == 2 || form.substr(2) == "+");
  }
  std::string name() const {
    return "product/" + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + "/" + form;
  }
  DType result() const { return form[0] == 't' ? DType::kF32 : DType::kBF16; }
  size_t bytes() const {
    return static_cast<size_t>(m * k + k * n) * size_of(DType::kBF16) +
           static_cast<size_t>(m * n) * size_of(result()) + 3 * 128;
  }
};

/// Measures products in one piece of memory, which is filled with numbers once: a device computes faster with
/// zeros.
class Products {
 public:
  Products(Device device, size_t bytes)
      : context_({.device = device}), bytes_(bytes), memory_(device, bytes, "products") {
    std::minstd_rand generator(1);
    std::vector<BF16> numbers(std::min(bytes, size_t{16} << 20) / sizeof(BF16));
    for (BF16& number : numbers) number = BF16(static_cast<float>(generator()) * 0x1p-30F - 1.0F);
    char* const begin = static_cast<char*>(memory_.allocate(bytes));
    memory_.release_to(0);
    const size_t piece = numbers.size() * sizeof(BF16);
    for (size_t at = 0; at < bytes; at += piece)
      copy_to_device(context_, begin + at, numbers.data(), std::min(piece, bytes - at));
  }

  void multiply(benchmark::State& state, const Product& product) {
    const ArenaScope scope(memory_);
    const bool transpose_a = product.form[0] == 't';
    const bool transpose_b = product.form[1] == 't';
    const auto factor = [&](int64_t rows, int64_t cols, bool transposed) {
      return memory_.allocate(transposed ? cols : rows, transposed ? rows : cols, DType::kBF16);
    };
    GemmArgs args{.a = factor(product.m, product.k, transpose_a),
                  .b = factor(product.k, product.n, transpose_b),
                  .c = memory_.allocate(product.m, product.n, product.result())};
    args.transpose_a = transpose_a;
    args.transpose_b = transpose_b;
    args.accumulate = product.form.size() > 2;
    measure(state, [&] { gemm(context_, args); });
  }
  void copy(benchmark::State& state) {
    const ArenaScope scope(memory_);
    const auto elements = static_cast<int64_t>((bytes_ - 256) / 2 / sizeof(float));
    const Tensor from = memory_.allocate(1, elements, DType::kF32);
    const Tensor to = memory_.allocate(1, elements, DType::kF32);
    measure(state, [&] { ventris::add(context_, {.steps = {{.term = from, .additions = 0, .sum = to}}}); });
    state.counters["bytes"] = 2.0 * sizeof(float) * static_cast<double>(elements);
  }

 private:
  template <typename Work>
  void measure(benchmark::State& state, const Work& work) {
    const int calls = 10;  // so that the host stays ahead of the device
    work();                // chooses an algorithm
    for (auto _ : state) {
      Profile& profile = context_.profile();
      profile.clear();
      profile.begin_step();
      for (int i = 0; i < calls; ++i) work();
      profile.end_step();
      state.SetIterationTime(profile.step_seconds() / calls);
    }
  }

  Context context_;
  size_t bytes_;
  Arena memory_;
};

bool add_products(Device device, const std::string& path) {
  std::ifstream file(path);
  std::vector<Product> all;
  size_t bytes = size_t{1} << 20;
  for (Product product; product.read(file);) {
    if (!product.valid()) return false;
    bytes = std::max(bytes, product.bytes());
    all.push_back(product);
  }
  if (!file.eof() || all.empty()) return false;
  const auto products = std::make_shared<Products>(device, bytes);
  const auto add_one = [](const std::string& name, auto measure) {
    benchmark::RegisterBenchmark(name.c_str(), measure)
        ->Unit(benchmark::kMillisecond)
        ->UseManualTime()
        ->Iterations(3);
  };
  add_one("copy", [=](benchmark::State& state) { products->copy(state); });
  for (const Product& product : all)
    add_one(product.name(), [=](benchmark::State& state) { products->multiply(state, product); });
  return true;
}

}  // namespace
}  // namespace ventris

int main(int argc, char** argv) {
  using namespace ventris;
  benchmark::Initialize(&argc, argv);
  Device device = Device::kCpu;
  std::string pairs;
  std::string products;
  for (int i = 1; i < argc; i += 2) {
    const std::string option = argv[i];
    const std::string value = i + 1 < argc ? argv[i + 1] : "";
    if (option == "--device" && (value == "cpu" || value == "cuda")) {
      device = value == "cuda" ? Device::kCuda : Device::kCpu;
    } else if (option == "--pairs" && !value.empty()) {
      pairs = value;
    } else if (option == "--products" && !value.empty()) {
      products = value;
    } else {
      std::cerr << "usage: attention_bench [--device cpu|cuda] [--pairs FILE | --products FILE] [options of "
                   "Google Benchmark]\n";
      return 64;
    }
  }
  const std::string reason = device == Device::kCuda ? cuda_unavailable_reason() : "";
  if (!reason.empty()) {
    std::cerr << "skipped: no CUDA device can be used: " << reason << '\n';
    return 77;
  }
  if (!products.empty()) {
    if (!add_products(device, products)) {
      std::cerr << "error: " << products
                << " does not hold lines \"m n k form\" with sizes from 1 to 1048576 "
                << "and forms nn, nt, tn, nn+, nt+ or tn+\n";
      return 65;
    }
  } else if (pairs.empty()) {
    add_made_up(device);
  } else if (!add_pairs(device, pairs)) {
    std::cerr << "error: " << pairs << " does not hold lines with two numbers of tokens from 1 to 65536\n";
    return 65;
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
