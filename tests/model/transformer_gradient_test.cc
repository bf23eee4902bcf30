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
void check_all_gradients(const TransformerConfig& config, const std::vector<float>& weights = {}) {
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

TEST(TransformerGradients, PostNormMatchesFiniteDifferences) {
  check_all_gradients(testing::tiny_config(false));
}

TEST(TransformerGradients, PreNormMatchesFiniteDifferences) {
  check_all_gradients(testing::tiny_config(true));
}

TEST(TransformerGradients, LearnedPositionsMatchFiniteDifferences) {
  check_all_gradients(testing::tiny_config(false, true));
}

TEST(TransformerGradients, OfMariansFunctionMatchFiniteDifferences) {
  check_all_gradients(testing::marian_config(false));
  check_all_gradients(testing::marian_config(true));
}

TEST(TransformerGradients, WithDropoutOfActivationsAndTokensMatchFiniteDifferences) {
  for (const bool pre_norm : {false, true}) {
    for (TransformerConfig config : {testing::tiny_config(pre_norm), testing::marian_config(pre_norm)}) {
      config.activation_dropout = 0.3F;
      config.dropout_source = 0.2F;
      config.dropout_target = 0.25F;
      check_all_gradients(config);
    }
  }
}

TEST(TransformerGradients, OfTablesThatAreApartMatchFiniteDifferences) {
  for (const bool pre_norm : {false, true}) {
    for (const Tie tie : {Tie::kDecoder, Tie::kNone}) {
      SCOPED_TRACE(name_of(tie));
      check_all_gradients(testing::two_vocabularies(testing::tiny_config(pre_norm, pre_norm), tie));
      TransformerConfig one_vocabulary = testing::marian_config(pre_norm);
      one_vocabulary.tie = tie;
      check_all_gradients(one_vocabulary);
    }
  }
}

/// One table has the sum of the gradients of three with the same values.
TEST(TransformerGradients, OfTheTablesAddUpToThatOfOne) {
  const PackedBatch batch(random_sentences({{2, 4}, {5, 3}}, 19, 5));
  const TransformerConfig config = testing::tiny_config(false);
  for (const auto& [dtype, bound] : {std::pair(DType::kF64, 1e-13), std::pair(DType::kF32, 1e-5)}) {
    for (const Tie tie : {Tie::kDecoder, Tie::kNone}) {
      SCOPED_TRACE(name_of(tie));
      TinyModel one(config, dtype);
      TransformerConfig apart = config;
      apart.tie = tie;
      TinyModel several(apart, dtype);
      several.change_values([&](Tensor all) {
        for (const LogicalParameter& parameter : several.store().logical()) {
          const LogicalParameter* origin =
              one.store().find(is_table(parameter.name) ? kEmbedding : parameter.name);
          const Tensor from = one.store().logical_value(*origin);
          const Tensor to = several.store().logical_block(all, parameter);
          for (int64_t r = 0; r < to.rows; ++r)
            for (int64_t c = 0; c < to.cols; ++c)
              TinyModel::set(to.row_range(r, 1), c, TinyModel::get(from.row_range(r, 1), c));
        }
      });
      one.zero_gradients();
      several.zero_gradients();
      EXPECT_EQ(several.step(batch).loss, one.step(batch).loss);
      const std::vector<double> expected = one.to_doubles(one.store().gradient(one.ids().output));
      std::vector<double> sum(expected.size());
      for (const ParameterId table : several.ids().tables()) {
        const std::vector<double> part = several.to_doubles(several.store().gradient(table));
        ASSERT_EQ(part.size(), sum.size());
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
      }
      EXPECT_EQ(several.ids().tables().size(), tie == Tie::kNone ? 3U : 2U);
      for (size_t i = 0; i < sum.size(); ++i)
        ASSERT_NEAR(sum[i], expected[i], bound * (1 + std::abs(expected[i]))) << i;
    }
  }
}

TEST(TransformerGradients, UnequalStacksAndOneHeadMatchFiniteDifferences) {
  TransformerConfig config = testing::tiny_config(true, true);
  config.encoder_layers = 1;
  config.decoder_layers = 3;
  config.heads = 1;
  config.d_model = 6;
  check_all_gradients(config);
}

TEST(TransformerGradients, OfWeightedSentencesMatchFiniteDifferences) {
  check_all_gradients(testing::tiny_config(true), {0.25F, 2.5F, 0.0F, 1.0F});
}

/// Backward is linear in the loss, and multiplication by a power of two rounds nothing.
TEST(TransformerGradients, WeightsOfTwoDoubleEveryBitAndWeightsOfOneChangeNone) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16}) {
    SCOPED_TRACE(name_of(dtype));
    TinyModel tiny(testing::tiny_config(false, true), dtype);
    PackedBatch batch(random_sentences({{2, 4}, {5, 3}, {0, 0}}, 19, 5));
    const auto step = [&](const std::vector<float>& weights) {
      batch.set_weights(weights);
      tiny.zero_gradients();
      const LossSums sums = tiny.step(batch);
      std::vector<double> all = tiny.gradients();
      all.push_back(sums.loss);
      all.push_back(sums.nll);
      return all;
    };
    const std::vector<double> none = step({});
    EXPECT_EQ(step({1.0F, 1.0F, 1.0F}), none);
    const std::vector<double> twice = step({2.0F, 2.0F, 2.0F});
    for (size_t i = 0; i < none.size(); ++i) ASSERT_EQ(twice[i], 2 * none[i]) << "element " << i;
  }
}

TEST(TransformerGradients, ASentenceOfWeightZeroTeachesNothing) {
  const auto pairs = random_sentences({{2, 4}, {5, 3}, {4, 7}}, 19, 5);
  TinyModel tiny(testing::tiny_config(false), DType::kF64);
  PackedBatch all(pairs);
  all.set_weights({1.0F, 0.5F, 0.0F});
  PackedBatch without({pairs[0], pairs[1]});
  without.set_weights({1.0F, 0.5F});
  const auto step = [&](const PackedBatch& batch) {
    tiny.zero_gradients();
    const double loss = tiny.step(batch).loss;
    return std::pair(loss, tiny.gradients());
  };
  const auto [loss, got] = step(all);
  const auto [expected_loss, expected] = step(without);
  EXPECT_NEAR(loss, expected_loss, 1e-12 * expected_loss);
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-12) << "element " << i;
}

/// Logits are computed for 512 rows at a time.
TEST(TransformerGradients, RowsOfEveryChunkHaveTheirWeights) {
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

TEST(TransformerGradients, BackwardAddsToWhatIsThere) {
  TinyModel tiny(testing::tiny_config(false), DType::kF64);
  const PackedBatch batch(random_sentences({{2, 4}, {5, 3}}, 19, 5));
  tiny.zero_gradients();
  tiny.step(batch);
  const auto once = tiny.gradients();
  tiny.step(batch);
  const auto twice = tiny.gradients();
  for (size_t i = 0; i < once.size(); ++i)
    ASSERT_NEAR(twice[i], 2 * once[i], 1e-12 + 1e-12 * std::abs(once[i]));
}

}  // namespace
}  // namespace ventris
