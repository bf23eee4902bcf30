// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "backend/device/error.h"
#include "model/parameters.h"
#include "tests/support/tiny_model.h"

namespace ventris {
namespace {

using testing::PackedBatch;
using testing::random_sentences;
using testing::TinyModel;

TEST(FrozenParameters, ComeFirstAmongTheValuesAndHaveNoGradients) {
  ParameterStore store;
  const ParameterId a = store.declare_matrix("a", 5, 7, Initializer::kXavierUniform);
  const ParameterId b = store.declare_matrix("b", 3, 30, Initializer::kOne);
  const ParameterId c = store.declare_fused_matrix({"q", "k", "v"}, 2, 5, Initializer::kNormal);
  const ParameterId d = store.declare_vector("d", 3, Initializer::kZero);
  store.freeze({"b", "k"});
  EXPECT_EQ(store.flat_size(), 64 + 128 + 64 + 64);
  EXPECT_EQ(store.frozen_size(), 128);
  EXPECT_EQ(store.trained_size(), 192);
  EXPECT_EQ(store.frozen_count(), 90 + 10);
  EXPECT_EQ(store.offset(b), 0);
  EXPECT_EQ(store.offset(a), 128);
  EXPECT_EQ(store.offset(c), 192);
  EXPECT_EQ(store.offset(d), 256);
  EXPECT_EQ(store.gradient_begin(a), 0);
  EXPECT_EQ(store.gradient_begin(b), 64);
  EXPECT_EQ(store.gradient_begin(c), 64);
  EXPECT_FALSE(store.trains_before(a));
  EXPECT_TRUE(store.trains_before(b));
  EXPECT_EQ(store.logical_at(0).name, "b");
  EXPECT_EQ(store.logical_at(128).name, "a");
  EXPECT_EQ(store.logical_at(192 + 15 + 5).name, "k");  // second row
  EXPECT_EQ(store.logical_at(256).name, "d");

  const auto columns = [&](ParameterId id) {
    std::vector<std::vector<int64_t>> all;
    for (const auto& [begin, count] : store.trained_columns(id)) all.push_back({begin, count});
    return all;
  };
  using Columns = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(columns(a), (Columns{{0, 7}}));
  EXPECT_EQ(columns(b), Columns{});
  EXPECT_EQ(columns(c), (Columns{{0, 5}, {10, 5}}));
  const auto ranges = store.trained_ranges();
  ASSERT_EQ(ranges.size(), 2U);
  EXPECT_EQ(ranges[0].count, 64);
  EXPECT_EQ(ranges[1].declared, 192);
  EXPECT_EQ(ranges[1].gradient, 64);
  EXPECT_EQ(ranges[1].count, 128);

  store.allocate(Device::kCpu, DType::kBF16, /*gradients=*/true);
  EXPECT_EQ(store.gradients().cols, 192);
  EXPECT_EQ(store.trained_values().data, store.values().as<float>() + 128);
  EXPECT_EQ(store.trained_values().cols, 192);
  EXPECT_EQ(store.trained_compute_copy().data, store.compute_copy().as<BF16>() + 128);
  EXPECT_FALSE(store.gradient(b));
  EXPECT_FALSE(store.logical_gradient(*store.find("b")));
  EXPECT_FALSE(store.logical_gradient(*store.find("k")));
  EXPECT_EQ(store.logical_gradient(*store.find("v")).data, store.gradients().as<float>() + 64 + 10);
  EXPECT_THROW(store.freeze({"a"}), Error);
}

TEST(FrozenParameters, MustExist) {
  ParameterStore store;
  store.declare_vector("a", 3, Initializer::kOne);
  EXPECT_THROW(store.freeze({"b"}), Error);
}

struct Freeze {
  const char* name;
  std::vector<std::string> prefixes;
};

std::vector<std::string> names_with(const TransformerConfig& config,
                                    const std::vector<std::string>& prefixes) {
  ParameterStore store;
  declare_transformer(config, store);
  std::vector<std::string> names;
  for (const LogicalParameter& parameter : store.logical()) {
    const auto begins = [&](const std::string& prefix) { return parameter.name.starts_with(prefix); };
    if (std::any_of(prefixes.begin(), prefixes.end(), begins)) names.push_back(parameter.name);
  }
  return names;
}

/// Bit for bit, as the products of columns are those of the same columns among others.
TEST(FrozenParameters, LeaveTheGradientsOfTheOthersAsTheyAre) {
  const Freeze cases[] = {
      {"encoder and embeddings", {"encoder/", "embedding", "source_positions", "target_positions"}},
      {"embedding", {"embedding"}},
      {"all of the decoder", {"decoder/", "output/"}},
      {"a layer of both", {"encoder/layers/0", "decoder/layers/0"}},
      {"upper layers", {"encoder/layers/1", "decoder/layers/1", "encoder/norm", "decoder/norm"}},
      {"all but the last layer",
       {"embedding", "source_positions", "target_positions", "encoder/", "decoder/layers/0",
        "decoder/layers/1/cross_attention/key", "decoder/layers/1/cross_attention/value"}},
      {"parts of tensors",
       {"encoder/layers/0/self_attention/query", "encoder/layers/1/self_attention/key/weight",
        "decoder/layers/0/self_attention/value/bias", "decoder/layers/1/cross_attention/key"}},
      {"vectors",
       {"encoder/layers/0/feed_forward/inner/bias", "encoder/layers/1/self_attention/norm/gamma",
        "decoder/layers/0/feed_forward/norm/beta", "decoder/layers/1/cross_attention/output/bias"}},
      {"positions", {"source_positions"}},
      {"embedding of sources", {"source_embedding"}},
      {"encoder with its embedding", {"encoder/", "source_embedding", "source_positions"}},
      {"embedding of targets", {"target_embedding"}},
      {"table of the output layer", {"output/weight"}},
      {"all tables", {"embedding", "source_embedding", "target_embedding", "output/weight"}},
  };
  struct Kind {
    const char* name;
    TransformerConfig (*config)(bool pre_norm);
  };
  const Kind kinds[] = {
      {"", [](bool pre_norm) { return testing::tiny_config(pre_norm, /*learned_positions=*/true); }},
      {"as Marian ", [](bool pre_norm) { return testing::marian_config(pre_norm); }},
      {"two tables ",
       [](bool pre_norm) {
         return testing::two_vocabularies(testing::tiny_config(pre_norm), Tie::kDecoder);
       }},
      {"three tables ",
       [](bool pre_norm) { return testing::two_vocabularies(testing::tiny_config(pre_norm), Tie::kNone); }},
  };
  for (const Kind& kind : kinds) {
    for (const bool pre_norm : {false, true}) {
      const TransformerConfig config = kind.config(pre_norm);
      const auto sentences = random_sentences({{3, 4}, {5, 1}, {2, 6}}, 19, 1, config.source_vocab());
      for (const DType dtype : {DType::kF32, DType::kBF16}) {
        TinyModel whole(config, dtype);
        whole.zero_gradients();
        const double loss = whole.step(PackedBatch(sentences)).loss;
        for (const Freeze& freeze : cases) {
          SCOPED_TRACE(std::string(freeze.name) + (pre_norm ? " pre-norm " : " post-norm ") + kind.name +
                       name_of(dtype));
          const std::vector<std::string> names = names_with(config, freeze.prefixes);
          if (names.empty()) continue;
          TinyModel tiny(config, dtype, ContextOptions{.threads = 1}, KeptActivations::kAll,
                         StagedRows::kExact, names);
          tiny.zero_gradients();
          std::vector<int64_t> begins;
          EXPECT_EQ(
              tiny.step(PackedBatch(sentences), {}, [&](int64_t begin) { begins.push_back(begin); }).loss,
              loss);
          EXPECT_EQ(begins.back(), 0);
          EXPECT_TRUE(std::is_sorted(begins.rbegin(), begins.rend()));
          for (const LogicalParameter& parameter : tiny.store().logical()) {
            const Tensor gradient = tiny.store().logical_gradient(parameter);
            EXPECT_EQ(parameter.frozen, !gradient);
            if (!gradient) continue;
            EXPECT_EQ(tiny.to_doubles(gradient),
                      whole.to_doubles(whole.store().logical_gradient(*whole.store().find(parameter.name))))
                << parameter.name;
          }
          // What is frozen in a tensor that is trained stays zero, as the gaps do.
          double trained = 0.0;
          double all = 0.0;
          for (const double value : tiny.gradients()) all += value * value;
          for (const LogicalParameter& parameter : tiny.store().logical()) {
            const Tensor gradient = tiny.store().logical_gradient(parameter);
            if (!gradient) continue;
            for (const double value : tiny.to_doubles(gradient)) trained += value * value;
          }
          EXPECT_NEAR(trained, all, 1e-9 * all);
        }
      }
    }
  }
}

/// It would tell that the gradients of its layers are ready.
TEST(FrozenParameters, TheEncoderHasNoBackwardWhereNothingOfItTrains) {
  const PackedBatch batch(random_sentences({{3, 4}, {5, 1}}, 19, 1));
  for (const Tie tie : {Tie::kDecoder, Tie::kNone}) {
    const TransformerConfig config = testing::two_vocabularies(testing::tiny_config(false), tie);
    const auto calls = [&](const std::vector<std::string>& prefixes) {
      TinyModel tiny(config, DType::kF32, ContextOptions{.threads = 1}, KeptActivations::kAll,
                     StagedRows::kExact, names_with(config, prefixes));
      tiny.zero_gradients();
      int count = 0;
      tiny.step(batch, {}, [&](int64_t) { ++count; });
      return count;
    };
    const int layers = 2;
    const int of_decoder = layers + 2;  // its embedding with the keys and values, and the end
    EXPECT_EQ(calls({"encoder/", "source_embedding"}), of_decoder) << name_of(tie);
    EXPECT_EQ(calls({"encoder/"}), of_decoder + layers) << name_of(tie);
    EXPECT_EQ(calls({"source_embedding"}), of_decoder + layers) << name_of(tie);
  }
}

}  // namespace
}  // namespace ventris
