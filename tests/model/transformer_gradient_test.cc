// SPDX-License-Identifier: Apache-2.0
// Finite differences of the whole model's loss, in f64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/tiny_model.h"

namespace ventris {
namespace {

using testing::PackedBatch;
using testing::random_sentences;
using testing::TinyModel;

/// Central differences of gradient_scale * loss against the gradients, for a few elements of every logical
/// parameter. Dropout is on: its masks depend on the key alone, so that the loss is a fixed function of the
/// parameters.
void check_all_gradients(const TransformerConfig& config, const std::vector<float>& weights) {
  TinyModel tiny(config, DType::kF64);
  PackedBatch batch(
      random_sentences({{2, 4}, {0, 0}, {5, 3}, {1, 6}}, config.vocab_size, 5, config.source_vocab()));
  batch.set_weights(weights);
  const float gradient_scale = 0.125F;
  const testing::BatchKeys keys = {.gradient_scale = gradient_scale};
  tiny.zero_gradients();
  tiny.step(batch, keys);
  const auto loss_with = [&](Tensor value, int64_t row, int64_t col, double x) {
    TinyModel::set(value.row_range(row, 1), col, x);
    return gradient_scale * tiny.step(batch, keys).loss;
  };
  std::vector<std::vector<double>> expected;
  for (const LogicalParameter& parameter : tiny.store().logical()) {
    const Tensor gradient = tiny.store().logical_gradient(parameter);
    std::vector<double> copy;
    for (int64_t r = 0; r < gradient.rows; ++r) {
      for (int64_t c = 0; c < gradient.cols; ++c) copy.push_back(TinyModel::get(gradient.row_range(r, 1), c));
    }
    expected.push_back(copy);
  }
  size_t index = 0;
  for (const LogicalParameter& parameter : tiny.store().logical()) {
    const Tensor value = tiny.store().logical_value(parameter);
    const std::vector<double>& gradient = expected[index++];
    const int64_t count = parameter.rows * parameter.cols;
    const auto at_largest = std::max_element(gradient.begin(), gradient.end(),
                                             [](double a, double b) { return std::abs(a) < std::abs(b); });
    const double largest = std::abs(*at_largest);
    for (const int64_t element :
         {int64_t{3} % count, int64_t{7922} % count, static_cast<int64_t>(at_largest - gradient.begin())}) {
      const int64_t row = element / parameter.cols;
      const int64_t col = element % parameter.cols;
      const double x = TinyModel::get(value.row_range(row, 1), col);
      const double h = 1e-5;
      const double difference =
          (loss_with(value, row, col, x + h) - loss_with(value, row, col, x - h)) / (2 * h);
      TinyModel::set(value.row_range(row, 1), col, x);
      EXPECT_NEAR(gradient[static_cast<size_t>(element)], difference, 1e-8 + 1e-6 * largest)
          << parameter.name << "[" << row << "][" << col << "]";
    }
    const bool key_bias = parameter.name.ends_with("key/bias");  // the softmax does not see it
    if (!key_bias) {
      EXPECT_GT(largest, 1e-4) << parameter.name << " has no gradient to speak of";
    }
  }
}

struct GradientCase {
  const char* name;
  TransformerConfig config;
  std::vector<float> weights = {};  // of the sentences
};

TransformerConfig with_all_dropouts(TransformerConfig config) {
  config.activation_dropout = 0.3F;
  return config;
}

TransformerConfig with_gelu(TransformerConfig config) {
  config.activation = Activation::kGelu;
  return config;
}

TransformerConfig of_one_vocabulary(TransformerConfig config, Tie tie) {
  config.tie = tie;
  return config;
}

TransformerConfig unequal_stacks_and_one_head() {
  TransformerConfig config = testing::tiny_config(true, true);
  config.encoder_layers = 1;
  config.decoder_layers = 3;
  config.heads = 1;
  config.d_model = 6;
  return config;
}

std::vector<GradientCase> gradient_cases() {
  using testing::marian_config;
  using testing::tiny_config;
  using testing::two_vocabularies;
  return {{"post_norm", tiny_config(false)},
          {"pre_norm", tiny_config(true)},
          {"learned_positions", tiny_config(false, true)},
          {"marian", marian_config(false)},
          {"marian_pre_norm", marian_config(true)},
          {"gelu", with_gelu(tiny_config(false))},
          {"dropouts", with_all_dropouts(tiny_config(false))},
          {"dropouts_pre_norm", with_all_dropouts(tiny_config(true))},
          {"dropouts_marian", with_all_dropouts(marian_config(true))},
          {"two_tables", two_vocabularies(tiny_config(false), Tie::kDecoder)},
          {"three_tables", two_vocabularies(tiny_config(true, true), Tie::kNone)},
          {"two_tables_of_one_vocabulary", of_one_vocabulary(marian_config(true), Tie::kDecoder)},
          {"three_tables_of_one_vocabulary", of_one_vocabulary(marian_config(false), Tie::kNone)},
          {"unequal_stacks_and_one_head", unequal_stacks_and_one_head()},
          {"weighted_sentences", tiny_config(true), {0.25F, 2.5F, 0.0F, 1.0F}}};
}

class TransformerGradients : public ::testing::TestWithParam<GradientCase> {};
INSTANTIATE_TEST_SUITE_P(Models, TransformerGradients, ::testing::ValuesIn(gradient_cases()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(TransformerGradients, MatchFiniteDifferences) {
  check_all_gradients(GetParam().config, GetParam().weights);
}

/// Logits are computed for 512 rows at a time.
TEST(TransformerLoss, RowsOfEveryChunkHaveTheirWeights) {
  constexpr size_t kPairs = 60, kCounting = 54;  // of 11 target rows each
  const auto pairs = random_sentences(std::vector<std::pair<int, int>>(kPairs, {1, 10}), 19, 5);
  const MicroBatchCapacity capacity = {.source_rows = 700, .target_rows = 700, .sentences = kPairs};
  Context context({.threads = 1});
  ParameterStore store;
  const TransformerConfig config = testing::tiny_config(false);
  const TransformerIds ids = declare_transformer(config, store);
  store.allocate(Device::kCpu, DType::kF64, /*gradients=*/false);
  store.initialize(context, 7);
  Transformer model(context, config, store, ids, capacity, KeptActivations::kNone);
  BatchStage stage(context, capacity, StagedRows::kExact, StagedOrders::kNone, StagedWeights::kRows);
  const auto loss_of = [&](const PackedBatch& batch) {
    stage.fill(batch.view());
    stage.send();
    model.evaluate(stage.batch());
    return model.take_loss_sums().loss;
  };
  PackedBatch all(pairs);
  std::vector<float> weights(kCounting, 1.0F);
  weights.resize(kPairs);
  all.set_weights(weights);
  const double expected = loss_of(PackedBatch({pairs.begin(), pairs.begin() + kCounting}));
  EXPECT_NEAR(loss_of(all), expected, 1e-12 * expected);
}

}  // namespace
}  // namespace ventris
