// SPDX-License-Identifier: Apache-2.0
#include "model/layer_drop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/tiny_model.h"

namespace ventris {
namespace {

using testing::PackedBatch;
using testing::random_sentences;
using testing::TinyModel;

TransformerConfig with_layer_drop(TransformerConfig config, float encoder, float decoder) {
  config.encoder_layerdrop = encoder;
  config.decoder_layerdrop = decoder;
  return config;
}

TEST(LayerDrop, EachLayerOfEachMicroBatchIsDrawnWithTheRateOfItsStack) {
  const TransformerConfig config = with_layer_drop(testing::tiny_config(false), 0.25F, 0.5F);
  for (const auto& [stack, rate] : {std::pair(Stack::kEncoder, 0.25), std::pair(Stack::kDecoder, 0.5)}) {
    std::vector<std::vector<bool>> draws;
    for (const auto& [layer, seed, row] :
         {std::tuple(0, uint64_t{1}, 0U), std::tuple(1, uint64_t{1}, 0U), std::tuple(0, uint64_t{2}, 0U),
          std::tuple(0, uint64_t{1}, 640U)}) {
      std::vector<bool>& dropped = draws.emplace_back();
      for (uint32_t step = 1; step <= 4000; ++step)
        dropped.push_back(drops_layer(config, stack, layer, seed, {step, row}));
      const auto count = static_cast<double>(std::count(dropped.begin(), dropped.end(), true));
      EXPECT_NEAR(count / 4000, rate, 4 * std::sqrt(rate * (1 - rate) / 4000));
    }
    // Draws of another layer, seed or micro-batch have nothing to do with them.
    for (size_t other = 1; other < draws.size(); ++other) {
      int both = 0;
      for (size_t i = 0; i < 4000; ++i) both += draws[0][i] && draws[other][i] ? 1 : 0;
      EXPECT_NEAR(both / 4000.0, rate * rate, 0.03) << other;
    }
  }
}

TEST(LayerDrop, WithoutARateNoLayerIsDropped) {
  const TransformerConfig config = testing::tiny_config(false);
  for (uint32_t step = 1; step <= 100; ++step) {
    const PassedLayers passed = passed_layers(config, 1, {step, 0});
    EXPECT_EQ(passed.encoder, config.encoder_layers);
    EXPECT_EQ(passed.decoder, config.decoder_layers);
  }
  EXPECT_FALSE(has_layer_drop(config));
  EXPECT_TRUE(has_layer_drop(with_layer_drop(config, 0.0F, 0.1F)));
}

// In f64, with dropout of nothing else: its masks are named after the layers.
TEST(LayerDrop, ADroppedLayerIsAsIfTheModelDidNotHaveIt) {
  for (const bool pre_norm : {false, true}) {
    for (const Stack stack : {Stack::kEncoder, Stack::kDecoder}) {
      for (const int dropped : {0, 1}) {
        SCOPED_TRACE(::testing::Message() << pre_norm << " " << static_cast<int>(stack) << " " << dropped);
        TransformerConfig config = testing::tiny_config(pre_norm);
        config.dropout = config.attention_dropout = 0.0F;
        TransformerConfig fewer = config;
        const bool encoder = stack == Stack::kEncoder;
        (encoder ? fewer.encoder_layers : fewer.decoder_layers) = 1;
        config = with_layer_drop(config, encoder ? 0.5F : 0.0F, encoder ? 0.0F : 0.5F);
        testing::BatchKeys keys = {.step = 1};
        const auto drops = [&](int layer) {
          return drops_layer(config, stack, layer, 11, {keys.step, keys.target_row_base});
        };
        while (!drops(dropped) || drops(1 - dropped)) ++keys.step;

        TinyModel whole(config, DType::kF64);
        TinyModel part(fewer, DType::kF64);
        const std::string prefix = encoder ? "encoder/layers/" : "decoder/layers/";
        const auto name_in_whole = [&](std::string name) {
          if (name.starts_with(prefix)) name[prefix.size()] = static_cast<char>('1' - dropped);
          return name;
        };
        part.change_values([&](Tensor all) {
          for (const LogicalParameter& parameter : part.store().logical()) {
            const LogicalParameter* origin = whole.store().find(name_in_whole(parameter.name));
            ASSERT_NE(origin, nullptr) << parameter.name;
            const Tensor from = whole.store().logical_value(*origin);
            const Tensor to = part.store().logical_block(all, parameter);
            for (int64_t r = 0; r < to.rows; ++r)
              for (int64_t c = 0; c < to.cols; ++c)
                TinyModel::set(to.row_range(r, 1), c, TinyModel::get(from.row_range(r, 1), c));
          }
        });
        const PackedBatch batch(random_sentences({{2, 4}, {0, 0}, {5, 3}, {1, 6}}, config.vocab_size, 5));
        testing::BatchKeys earlier = keys;  // a step whose gradients of activations must leave nothing
        while (drops_layer(config, stack, dropped, 11, {earlier.step, earlier.target_row_base}))
          ++earlier.step;
        whole.step(batch, earlier);
        whole.zero_gradients();
        part.zero_gradients();
        const double loss = part.step(batch, keys).loss;
        EXPECT_NEAR(whole.step(batch, keys).loss, loss, 1e-12 * loss);
        std::set<std::string> compared;
        for (const LogicalParameter& parameter : part.store().logical()) {
          const std::string& name = *compared.insert(name_in_whole(parameter.name)).first;
          const Tensor expected = part.store().logical_gradient(parameter);
          const Tensor got = whole.store().logical_gradient(*whole.store().find(name));
          for (int64_t r = 0; r < got.rows; ++r)
            for (int64_t c = 0; c < got.cols; ++c)
              EXPECT_NEAR(TinyModel::get(got.row_range(r, 1), c), TinyModel::get(expected.row_range(r, 1), c),
                          1e-12)
                  << name;
        }
        for (const LogicalParameter& parameter : whole.store().logical()) {
          if (compared.contains(parameter.name)) continue;
          EXPECT_TRUE(parameter.name.starts_with(prefix + std::to_string(dropped))) << parameter.name;
          const Tensor gradient = whole.store().logical_gradient(parameter);
          for (int64_t r = 0; r < gradient.rows; ++r)
            for (int64_t c = 0; c < gradient.cols; ++c)
              EXPECT_EQ(TinyModel::get(gradient.row_range(r, 1), c), 0.0) << parameter.name;
        }
      }
    }
  }
}

TEST(LayerDrop, InferenceUsesAllLayers) {
  const TransformerConfig config = testing::tiny_config(false);
  TinyModel all(config, DType::kF32);
  TinyModel dropping(with_layer_drop(config, 0.9F, 0.9F), DType::kF32);
  const PackedBatch batch(random_sentences({{2, 4}, {5, 3}}, config.vocab_size, 5));
  EXPECT_EQ(dropping.logits(batch), all.logits(batch));
  EXPECT_EQ(dropping.evaluate(batch).loss, all.evaluate(batch).loss);
}

}  // namespace
}  // namespace ventris
