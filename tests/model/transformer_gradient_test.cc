// Finite differences of the whole model's loss, in f64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "tests/support/tiny_model.h"

namespace ventris {
namespace {

using testing::PackedBatch;
using testing::random_sentences;
using testing::TinyModel;

/// Central differences of gradient_scale * loss against the gradients, for a few elements of every logical
/// parameter. Dropout is on: its masks depend on the key alone, so that the loss is a fixed function of the
/// parameters.
void check_all_gradients(const TransformerConfig& config) {
  TinyModel tiny(config, DType::kF64);
  const PackedBatch batch(random_sentences({{2, 4}, {0, 0}, {5, 3}, {1, 6}}, config.vocab_size, 5));
  const float gradient_scale = 0.125F;
  tiny.zero_gradients();
  tiny.step(batch, {.gradient_scale = gradient_scale});
  const auto loss_with = [&](Tensor value, int64_t row, int64_t col, double x) {
    TinyModel::set(value.row_range(row, 1), col, x);
    return gradient_scale * tiny.step(batch, {.gradient_scale = gradient_scale}).loss;
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
    double largest = 0.0;
    for (const double g : gradient) largest = std::max(largest, std::abs(g));
    for (int64_t n = 0; n < 3; ++n) {
      const int64_t element = (n * 7919 + 3) % count;
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

TEST(TransformerGradients, UnequalStacksAndOneHeadMatchFiniteDifferences) {
  TransformerConfig config = testing::tiny_config(true, true);
  config.encoder_layers = 1;
  config.decoder_layers = 3;
  config.heads = 1;
  config.d_model = 6;
  check_all_gradients(config);
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
