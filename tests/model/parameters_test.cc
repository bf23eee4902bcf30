// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "backend/device/error.h"
#include "model/parameters.h"
#include "model/transformer_config.h"
#include "model/transformer_parameters.h"

namespace ventris {
namespace {

TEST(ParameterStore, TensorsStartAtMultiplesOf64InOrderOfDeclaration) {
  ParameterStore store;
  const ParameterId a = store.declare_matrix("a", 5, 7, Initializer::kXavierUniform);
  const ParameterId b = store.declare_vector("b", 3, Initializer::kOne);
  const ParameterId c = store.declare_matrix("c", 3, 10, Initializer::kNormal, 8);
  EXPECT_EQ(store.offset(a), 0);
  EXPECT_EQ(store.offset(b), 64);
  EXPECT_EQ(store.offset(c), 128);
  EXPECT_EQ(store.flat_size(), 256);
  EXPECT_EQ(store.parameter_count(), 35 + 3 + 30);
  store.allocate(Device::kCpu, DType::kF32, true);
  EXPECT_EQ(store.value(c).rows, 8);
  EXPECT_EQ(store.value(b).rows, 1);
  EXPECT_EQ(store.logical_value(*store.find("c")).rows, 3);
  EXPECT_EQ(store.gradient(c).as<float>() - store.gradients().as<float>(), 128);
  EXPECT_EQ(store.find("d"), nullptr);
}

TEST(ParameterStore, TellsTheOwnerOfAnElement) {
  ParameterStore store;
  store.declare_matrix("a", 5, 7, Initializer::kOne);
  store.declare_fused_matrix({"query", "key"}, 3, 5, Initializer::kOne);
  store.declare_matrix("padded", 3, 10, Initializer::kOne, 8);
  const auto owner = [&](int64_t element) { return store.logical_at(element).name; };
  EXPECT_EQ(owner(0), "a");
  EXPECT_EQ(owner(34), "a");
  EXPECT_EQ(owner(63), "a");  // of the gap
  for (int64_t row = 0; row < 3; ++row) {
    EXPECT_EQ(owner(64 + 10 * row), "query");
    EXPECT_EQ(owner(64 + 10 * row + 4), "query");
    EXPECT_EQ(owner(64 + 10 * row + 5), "key");
    EXPECT_EQ(owner(64 + 10 * row + 9), "key");
  }
  EXPECT_EQ(owner(128), "padded");
  EXPECT_EQ(owner(store.flat_size() - 1), "padded");
  EXPECT_THROW(store.logical_at(store.flat_size()), Error);
  EXPECT_THROW(store.logical_at(-1), Error);
}

TEST(ParameterStore, MistakesAreErrors) {
  ParameterStore store;
  store.declare_vector("a", 3, Initializer::kOne);
  EXPECT_THROW(store.declare_vector("a", 3, Initializer::kOne), Error);
  store.allocate(Device::kCpu, DType::kF32, false);
  EXPECT_THROW(store.declare_vector("b", 3, Initializer::kOne), Error);
  EXPECT_THROW(store.gradient(0), Error);
  EXPECT_THROW(store.allocate(Device::kCpu, DType::kF32, false), Error);
}

TEST(ParameterStore, ValuesDependOnSeedNameAndShapeAlone) {
  Context context({});
  ParameterStore fused;
  fused.declare_fused_matrix({"query", "key"}, 6, 5, Initializer::kXavierUniform);
  ParameterStore apart;  // in another order, with something else before
  apart.declare_matrix("other", 9, 9, Initializer::kNormal);
  apart.declare_matrix("key", 6, 5, Initializer::kXavierUniform);
  apart.declare_matrix("query", 6, 5, Initializer::kXavierUniform);
  fused.allocate(Device::kCpu, DType::kF32, false);
  apart.allocate(Device::kCpu, DType::kF64, false);
  fused.initialize(context, 42);
  apart.initialize(context, 42);
  std::set<float> different;
  for (const char* name : {"query", "key"}) {
    const Tensor a = fused.logical_value(*fused.find(name));
    const Tensor b = apart.logical_value(*apart.find(name));
    EXPECT_EQ(a.stride, 10);
    for (int64_t r = 0; r < 6; ++r) {
      for (int64_t c = 0; c < 5; ++c) {
        EXPECT_EQ(a.row<float>(r)[c], static_cast<float>(b.row<double>(r)[c]));
        different.insert(a.row<float>(r)[c]);
      }
    }
  }
  EXPECT_EQ(different.size(), 60U);
  const float before = fused.values().as<float>()[0];
  fused.initialize(context, 43);
  EXPECT_NE(fused.values().as<float>()[0], before);
  fused.initialize(context, 42);
  EXPECT_EQ(fused.values().as<float>()[0], before);
}

struct Moments {
  double mean = 0, deviation = 0, largest = 0;
};

Moments moments_of(Tensor view) {
  double sum = 0;
  double squares = 0;
  Moments m;
  for (int64_t r = 0; r < view.rows; ++r) {
    for (int64_t c = 0; c < view.cols; ++c) {
      const double x = view.row<float>(r)[c];
      sum += x;
      squares += x * x;
      m.largest = std::max(m.largest, std::abs(x));
    }
  }
  const auto n = static_cast<double>(view.size());
  m.mean = sum / n;
  m.deviation = std::sqrt(squares / n - m.mean * m.mean);
  return m;
}

TEST(ParameterStore, InitialValuesHaveTheDistributionsOfThePaper) {
  Context context({});
  ParameterStore store;
  store.declare_matrix("embedding", 500, 128, Initializer::kNormal, 640);
  store.declare_fused_matrix({"query", "key", "value"}, 128, 128, Initializer::kXavierUniform);
  store.declare_matrix("inner", 128, 256, Initializer::kXavierUniform);
  store.declare_vector("gamma", 128, Initializer::kOne);
  store.declare_vector("bias", 128, Initializer::kZero);
  store.allocate(Device::kCpu, DType::kF32, false);
  store.initialize(context, 1);
  const auto of = [&](const char* name) { return moments_of(store.logical_value(*store.find(name))); };

  const Moments normal = of("embedding");
  EXPECT_NEAR(normal.mean, 0.0, 4 * std::pow(128, -0.5) / std::sqrt(64000.0));
  EXPECT_NEAR(normal.deviation, std::pow(128, -0.5), 0.01 * std::pow(128, -0.5));
  EXPECT_GT(normal.largest, 3.5 * std::pow(128, -0.5));

  const double square_bound = std::sqrt(6.0 / 256);  // of the logical parameter, not of the fused tensor
  const Moments key = of("key");
  EXPECT_LE(key.largest, square_bound);
  EXPECT_GT(key.largest, 0.999 * square_bound);
  EXPECT_NEAR(key.deviation, square_bound / std::sqrt(3.0), 0.02 * square_bound);
  const Moments inner = of("inner");
  EXPECT_LE(inner.largest, std::sqrt(6.0 / 384));
  EXPECT_GT(inner.largest, 0.999 * std::sqrt(6.0 / 384));

  EXPECT_EQ(of("gamma").mean, 1.0);
  EXPECT_EQ(of("gamma").deviation, 0.0);
  EXPECT_EQ(of("bias").largest, 0.0);
  const ConstTensor padded = store.value(0);
  for (int64_t r = 500; r < 640; ++r) {
    for (int64_t c = 0; c < 128; ++c) ASSERT_EQ(padded.row<float>(r)[c], 0.0F);
  }
}

TEST(ParameterStore, ComputeCopyIsTheRoundedMaster) {
  ParameterStore store;
  const ParameterId weight = store.declare_matrix("weight", 3, 5, Initializer::kXavierUniform);
  const ParameterId bias = store.declare_vector("bias", 5, Initializer::kOne);
  store.allocate(Device::kCpu, DType::kBF16, true);
  Context context({});
  store.initialize(context, 3);
  EXPECT_EQ(store.value(weight).dtype, DType::kBF16);
  EXPECT_EQ(store.value(bias).dtype, DType::kF32);
  EXPECT_EQ(store.gradient(weight).dtype, DType::kF32);
  const float* master = store.values().as<float>();
  EXPECT_EQ(store.value(weight).as<BF16>()[4].bits, BF16(master[4]).bits);
  store.values().as<float>()[4] = 3.14159F;
  store.refresh_compute_copy(context);
  EXPECT_EQ(store.value(weight).as<BF16>()[4].bits, BF16(3.14159F).bits);
}

int64_t count_of(const TransformerConfig& config) {
  ParameterStore store;
  declare_transformer(config, store);
  return store.parameter_count();
}

TEST(TransformerParameters, BaseAndBigHaveTheNumbersOfThePaper) {
  const TransformerConfig base;
  const TransformerConfig big = {.d_model = 1024, .d_ff = 4096, .heads = 16};
  const int64_t base_count = count_of(base);
  const int64_t big_count = count_of(big);
  std::printf("parameters with 37,000 tokens: base %lld, big %lld\n", static_cast<long long>(base_count),
              static_cast<long long>(big_count));
  EXPECT_EQ(base_count, 63'082'496);  // the paper rounds its table 3 to 65 and 213 million
  EXPECT_EQ(big_count, 214'245'376);
}

TEST(TransformerParameters, PreNormAndLearnedPositionsAddTheirTensors) {
  TransformerConfig config = {.encoder_layers = 1,
                              .decoder_layers = 1,
                              .d_model = 8,
                              .d_ff = 16,
                              .heads = 2,
                              .vocab_size = 50,
                              .max_positions = 20};
  const int64_t plain = count_of(config);
  config.pre_norm = true;
  EXPECT_EQ(count_of(config), plain + 2 * 2 * 8);
  config.learned_positions = true;
  EXPECT_EQ(count_of(config), plain + 2 * 2 * 8 + 2 * 20 * 8);
  config.output_bias = true;
  EXPECT_EQ(count_of(config), plain + 2 * 2 * 8 + 2 * 20 * 8 + 50);
}

TEST(TransformerParameters, NamesArePartsOfPaths) {
  ParameterStore store;
  const TransformerConfig config = {.encoder_layers = 2,
                                    .decoder_layers = 2,
                                    .d_model = 8,
                                    .d_ff = 16,
                                    .heads = 2,
                                    .vocab_size = 50,
                                    .pre_norm = true,
                                    .learned_positions = true};
  const TransformerIds ids = declare_transformer(config, store);
  for (const char* name :
       {"embedding", "source_positions", "target_positions", "encoder/layers/0/self_attention/query/weight",
        "encoder/layers/1/feed_forward/inner/bias", "encoder/norm/gamma",
        "decoder/layers/1/cross_attention/value/weight", "decoder/layers/0/cross_attention/norm/beta",
        "decoder/layers/1/feed_forward/outer/weight", "decoder/norm/beta"}) {
    EXPECT_NE(store.find(name), nullptr) << name;
  }
  const LogicalParameter* value = store.find("decoder/layers/1/cross_attention/value/weight");
  EXPECT_EQ(value->tensor, ids.memory_key_value.weight);
  EXPECT_EQ(value->col_begin, 3 * 8);
  EXPECT_EQ(store.find("embedding")->rows, 50);
}

TEST(TransformerConfig, BadShapesAreRefusedWithTheOptionsName) {
  const auto message = [](const TransformerConfig& config) -> std::string {
    try {
      config.validate();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadConfiguration);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message({}), "");
  EXPECT_NE(message({.encoder_layers = 0}).find("--encoder-layers"), std::string::npos);
  EXPECT_NE(message({.d_model = 7, .heads = 7}).find("--d-model"), std::string::npos);
  EXPECT_NE(message({.heads = 7}).find("--heads"), std::string::npos);
  EXPECT_NE(message({.vocab_size = 3}).find("--vocab-size"), std::string::npos);
  EXPECT_NE(message({.dropout = 1.0F}).find("--dropout"), std::string::npos);
  EXPECT_NE(message({.attention_dropout = -0.1F}).find("--attention-dropout"), std::string::npos);
  EXPECT_NE(message({.activation_dropout = 1.5F}).find("--activation-dropout"), std::string::npos);
  EXPECT_NE(message({.label_smoothing = NAN}).find("--label-smoothing"), std::string::npos);
}

}  // namespace
}  // namespace ventris
