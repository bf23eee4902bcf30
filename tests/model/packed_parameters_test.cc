// SPDX-License-Identifier: Apache-2.0
#include "model/packed_parameters.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "model/search/beam_search.h"
#include "tests/support/tiny_model.h"

namespace ventris {
namespace {

using testing::PackedBatch;
using testing::TinyModel;

struct PackedVariant {
  const char* name;
  TransformerConfig config;
};

class PackedParameters : public ::testing::TestWithParam<std::tuple<DType, PackedVariant>> {
 protected:
  DType dtype() const { return std::get<0>(GetParam()); }
  TinyModel tiny() const {
    return TinyModel(std::get<1>(GetParam()).config, dtype(), /*threads=*/2, KeptActivations::kNone);
  }
};

std::vector<std::vector<Hypothesis>> translate_with(TinyModel& tiny, ParameterStore& store,
                                                    const std::vector<std::vector<int32_t>>& sources,
                                                    int64_t batch_sentences) {
  BeamSearch search(tiny.context(), tiny.config(), store, tiny.ids(),
                    {.n_best = 4, .batch_sentences = batch_sentences});
  return search.translate(sources);
}

const std::vector<std::vector<int32_t>> kSources = {
    {3, 7, 9, 4}, {11}, {5, 6, 12, 17, 18, 3, 4}, {8, 8}, {14, 4, 10}};

void expect_equal_translations(const std::vector<std::vector<Hypothesis>>& got,
                               const std::vector<std::vector<Hypothesis>>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t s = 0; s < got.size(); ++s) {
    ASSERT_EQ(got[s].size(), expected[s].size()) << "sentence " << s;
    for (size_t i = 0; i < got[s].size(); ++i) {
      EXPECT_EQ(got[s][i].tokens, expected[s][i].tokens) << "sentence " << s;
      EXPECT_EQ(got[s][i].log_probability, expected[s][i].log_probability) << "sentence " << s;
    }
  }
}

TEST_P(PackedParameters, GiveTheBitsOfTheCopyThatASearchMakes) {
  TinyModel model = tiny();
  const auto expected = translate_with(model, model.store(), kSources, 0);
  ParameterStore copy = packed_copy(model.context(), model.ids(), model.store(), packing_of(dtype()));
  EXPECT_FALSE(model.store().is_packed());
  expect_equal_translations(translate_with(model, copy, kSources, 0), expected);
  pack_parameters(model.context(), model.ids(), model.store(), packing_of(dtype()));
  EXPECT_TRUE(model.store().is_packed());
  expect_equal_translations(translate_with(model, model.store(), kSources, 0), expected);
}

TEST_P(PackedParameters, TranslateASentenceWithTheSameBitsForAnyNumberInABatch) {
  TinyModel model = tiny();
  const auto together = translate_with(model, model.store(), kSources, 0);
  for (const int64_t sentences : {1, 2, 3}) {
    expect_equal_translations(translate_with(model, model.store(), kSources, sentences), together);
  }
}

TEST_P(PackedParameters, GiveTheLossOfTheWholeModel) {
  TinyModel model = tiny();
  const PackedBatch batch(testing::random_sentences({{3, 4}, {7, 2}, {1, 9}}, 19, 5));
  const LossSums expected = model.evaluate(batch);
  pack_parameters(model.context(), model.ids(), model.store(), packing_of(dtype()));
  Transformer packed(model.context(), model.config(), model.store(), model.ids(), TinyModel::kCapacity,
                     KeptActivations::kNone);
  packed.evaluate(model.place(batch));
  const LossSums got = packed.take_loss_sums();
  EXPECT_NEAR(got.loss, expected.loss, expected.loss * (dtype() == DType::kBF16 ? 1e-2 : 1e-5));
}

TEST_P(PackedParameters, KeepNoOtherFormOfAWeight) {
  TinyModel model = tiny();
  pack_parameters(model.context(), model.ids(), model.store(), packing_of(dtype()));
  const ParameterStore& store = model.store();
  const EncoderLayerIds& layer = model.ids().encoder[0];
  EXPECT_TRUE(store.packed(layer.feed_forward.inner.weight));
  EXPECT_THROW(store.value(layer.feed_forward.inner.weight), Error);
  EXPECT_EQ(store.value(layer.feed_forward.inner.bias).dtype, DType::kF32);
  for (const ParameterId table : model.ids().tables()) {
    EXPECT_TRUE(store.packed(table));
    EXPECT_THROW(store.value(table), Error);
  }
  EXPECT_THROW(packed_copy(model.context(), model.ids(), store, packing_of(dtype())), Error);
}

INSTANTIATE_TEST_SUITE_P(
    Variants, PackedParameters,
    ::testing::Combine(::testing::Values(DType::kF32, DType::kBF16),
                       ::testing::Values(PackedVariant{"post_norm", testing::tiny_config(false)},
                                         PackedVariant{"pre_norm", testing::tiny_config(true, true)},
                                         PackedVariant{"marian", testing::marian_config(true)},
                                         PackedVariant{"three_tables",
                                                       testing::two_vocabularies(testing::tiny_config(true),
                                                                                 Tie::kNone)})),
    [](const auto& info) {
      return std::string(name_of(std::get<0>(info.param))) + "_" + std::get<1>(info.param).name;
    });

}  // namespace
}  // namespace ventris
