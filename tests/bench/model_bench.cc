// SPDX-License-Identifier: Apache-2.0
// Target tokens/s and FLOP/s of forward and backward, and of the whole step with Adam.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "backend/adam.h"
#include "backend/cast.h"
#include "model/flop_count.h"
#include "model/transformer.h"
#include "tests/support/device_buffer.h"
#include "tests/support/tiny_model.h"

namespace ventris {
namespace {

constexpr int64_t kTargetTokens = 2000;

enum Preset : int64_t { kTiny, kBase };

TransformerConfig config_of(int64_t preset) {
  TransformerConfig config{.vocab_size = 10000};
  if (preset == kTiny) {
    config.encoder_layers = config.decoder_layers = 4;
    config.d_model = 128;
    config.d_ff = 256;
    config.heads = 4;
    config.dropout = config.attention_dropout = 0.3F;
  }
  return config;
}

/// Sentence pairs with a mean length of 14 tokens, as in Multi30k, until the target tokens are reached.
testing::PackedBatch make_batch() {
  std::mt19937 generator(1);
  std::vector<std::pair<int, int>> lengths;
  for (int64_t tokens = 0; tokens < kTargetTokens - 30;) {
    const int length = 5 + static_cast<int>(generator() % 19);
    lengths.emplace_back(length, std::max(1, length + static_cast<int>(generator() % 5) - 2));
    tokens += lengths.back().second + 1;
  }
  return testing::PackedBatch(testing::random_sentences(lengths, 10000, 2));
}

void training_step(benchmark::State& state) {
  const TransformerConfig config = config_of(state.range(0));
  const DType dtype = state.range(1) == 0 ? DType::kF32 : DType::kBF16;
  Context context({.threads = static_cast<int>(state.range(2))});
  ParameterStore store;
  const TransformerIds ids = declare_transformer(config, store);
  store.allocate(Device::kCpu, dtype, true);
  store.initialize(context, 1);
  const MicroBatchCapacity capacity = {
      .source_rows = kTargetTokens + 500, .target_rows = kTargetTokens, .sentences = 1000};
  Transformer model(context, config, store, ids, capacity, KeptActivations::kAll);
  const testing::PackedBatch packed = make_batch();
  BatchStage stage(context, capacity);
  testing::Buffer m(1, store.flat_size(), DType::kF32);
  testing::Buffer v(1, store.flat_size(), DType::kF32);
  const AdamScalars scalars = {
      .learning_rate = 1e-4F, .gradient_scale = 1.0F, .bias_correction1 = 0.5F, .bias_correction2 = 0.5F};
  uint32_t step = 0;
  const auto run = [&] {
    fill_zero(context, store.gradients());
    stage.fill(
        packed.view({.gradient_scale = 1.0F / static_cast<float>(packed.target_tokens()), .step = step++}));
    stage.send();
    model.forward_backward(stage.batch(), 1, {}, /*first=*/false);
    adam(context, {.value = store.values(),
                   .gradient = store.gradients(),
                   .m = m.view(),
                   .v = v.view(),
                   .compute = store.compute_copy(),
                   .scalars = &scalars});
  };
  run();
  for (auto _ : state) run();
  using Counter = benchmark::Counter;
  state.counters["target_tokens/s"] =
      Counter(static_cast<double>(packed.target_tokens()), Counter::kIsIterationInvariantRate);
  state.counters["FLOP/s"] = Counter(
      training_flops(config, all_layers(config), packed.source_offsets(), packed.target_offsets()).total(),
      Counter::kIsIterationInvariantRate);
  state.counters["activation_MB"] = static_cast<double>(model.activation_bytes()) * 1e-6;
  state.SetLabel(std::string(state.range(0) == kTiny ? "tiny " : "base ") + name_of(dtype));
}
BENCHMARK(training_step)
    ->ArgNames({"preset", "bf16", "threads"})
    ->ArgsProduct({{kTiny, kBase}, {0, 1}, {1, 2}})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace ventris
