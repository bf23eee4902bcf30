// SPDX-License-Identifier: Apache-2.0
// What a model must not depend on: later tokens, other sentences, padding, threads, the cut into
// micro-batches.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "backend/device/error.h"
#include "backend/ops/gemm.h"
#include "model/flop_count.h"
#include "tests/support/tiny_model.h"
#include "tests/support/tolerance.h"

namespace ventris {
namespace {

using testing::PackedBatch;
using testing::random_sentences;
using testing::SentencePair;
using testing::TinyModel;

struct Variant {
  const char* name;
  TransformerConfig config;
};

class TransformerBehaviour : public ::testing::TestWithParam<std::tuple<Variant, DType>> {
 protected:
  TransformerConfig config() const { return std::get<0>(GetParam()).config; }
  DType dtype() const { return std::get<1>(GetParam()); }
  std::vector<SentencePair> sentences() const {
    return random_sentences({{3, 4}, {1, 7}, {6, 2}}, 19, 9, config().source_vocab());
  }
};

/// Whose decoder has its own table, with a row that is held at zero.
TransformerConfig apart(Tie tie, bool pre_norm) {
  TransformerConfig config = testing::two_vocabularies(testing::tiny_config(pre_norm), tie);
  config.zero_token = 1;
  return config;
}

INSTANTIATE_TEST_SUITE_P(
    Variants, TransformerBehaviour,
    ::testing::Combine(::testing::Values(Variant{"post_norm", testing::tiny_config(false)},
                                         Variant{"pre_norm", testing::tiny_config(true)},
                                         Variant{"marian", testing::marian_config(false)},
                                         Variant{"two_tables", apart(Tie::kDecoder, false)},
                                         Variant{"three_tables", apart(Tie::kNone, true)}),
                       ::testing::Values(DType::kF32, DType::kBF16)),
    [](const auto& instance) {
      return std::string(std::get<0>(instance.param).name) + "_" + name_of(std::get<1>(instance.param));
    });

/// Rows [begin, end) of the logits.
std::vector<double> rows_of(TinyModel& tiny, const std::vector<SentencePair>& pairs, size_t begin,
                            size_t end) {
  const std::vector<double> all = tiny.logits(PackedBatch(pairs));
  const auto width = static_cast<size_t>(tiny.config().padded_vocab());
  return {all.begin() + static_cast<std::ptrdiff_t>(begin * width),
          all.begin() + static_cast<std::ptrdiff_t>(end * width)};
}

double relative_distance(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0.0;
  double norm = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

TEST_P(TransformerBehaviour, LaterTargetTokensDoNotChangeEarlierLogits) {
  TinyModel tiny(config(), dtype());
  auto pairs = sentences();
  // Target rows of sentence 1: 5 (begin mark) to 12; token 3 is the input of row 9.
  const auto before = rows_of(tiny, pairs, 5, 9);
  const auto later_before = rows_of(tiny, pairs, 9, 10);
  pairs[1].target[3] = pairs[1].target[3] == 5 ? 6 : 5;
  EXPECT_EQ(rows_of(tiny, pairs, 5, 9), before);
  EXPECT_NE(rows_of(tiny, pairs, 9, 10), later_before);
}

TEST_P(TransformerBehaviour, OtherSentencesDoNotChangeLogits) {
  TinyModel tiny(config(), dtype());
  auto pairs = sentences();
  const auto first = rows_of(tiny, pairs, 0, 5);
  const auto last = rows_of(tiny, pairs, 13, 16);
  pairs[1].source[0] = pairs[1].source[0] == 5 ? 6 : 5;
  pairs[1].target[2] = pairs[1].target[2] == 5 ? 6 : 5;
  EXPECT_EQ(rows_of(tiny, pairs, 0, 5), first);
  EXPECT_EQ(rows_of(tiny, pairs, 13, 16), last);
}

TEST_P(TransformerBehaviour, DropoutRateZeroEqualsNoDropout) {
  TransformerConfig none = config();
  none.dropout = none.attention_dropout = 0.0F;
  TinyModel without(none, dtype());
  TinyModel with(config(), dtype());
  const PackedBatch batch(sentences());
  const double expected = without.evaluate(batch).loss;
  EXPECT_EQ(without.step(batch).loss, expected);
  EXPECT_EQ(with.evaluate(batch).loss, expected);
  EXPECT_NE(with.step(batch).loss, expected);
}

TEST_P(TransformerBehaviour, DropoutDependsOnSeedStepAndRowBase) {
  TinyModel tiny(config(), dtype());
  const PackedBatch batch(sentences());
  const auto loss = [&](uint64_t seed, uint32_t step, uint32_t source_base, uint32_t target_base) {
    const testing::BatchKeys keys = {
        .step = step, .source_row_base = source_base, .target_row_base = target_base};
    return tiny.step(batch, keys, {}, seed).loss;
  };
  const double expected = loss(1, 2, 3, 4);
  EXPECT_EQ(loss(1, 2, 3, 4), expected);
  EXPECT_NE(loss(2, 2, 3, 4), expected);
  EXPECT_NE(loss(1, 3, 3, 4), expected);
  EXPECT_NE(loss(1, 2, 4, 4), expected);
  EXPECT_NE(loss(1, 2, 3, 5), expected);
}

TEST_P(TransformerBehaviour, TwoMicroBatchesEqualOneJointBatch) {
  TinyModel tiny(config(), dtype());
  const auto pairs = sentences();
  tiny.zero_gradients();
  const LossSums joint = tiny.step(PackedBatch(pairs), {.gradient_scale = 0.25F});
  const auto joint_gradients = tiny.gradients();
  tiny.zero_gradients();
  const LossSums first = tiny.step(PackedBatch({pairs[0]}), {.gradient_scale = 0.25F});
  const LossSums second = tiny.step(PackedBatch({pairs[1], pairs[2]}),
                                    {.gradient_scale = 0.25F, .source_row_base = 4, .target_row_base = 5});
  const double bound = dtype() == DType::kF32 ? 2e-6 : 1e-2;
  EXPECT_NEAR(first.loss + second.loss, joint.loss, bound * joint.loss);
  EXPECT_NEAR(first.nll + second.nll, joint.nll, bound * joint.nll);
  EXPECT_LT(relative_distance(tiny.gradients(), joint_gradients), bound);
}

TEST_P(TransformerBehaviour, ThreadsAndRepetitionChangeNoBit) {
  const PackedBatch batch(sentences());
  const auto run = [&](int threads) {
    TinyModel tiny(config(), dtype(), threads);
    tiny.zero_gradients();
    const double loss = tiny.step(batch).loss;
    auto result = tiny.gradients();
    result.push_back(loss);
    return result;
  };
  const auto expected = run(1);
  EXPECT_EQ(run(1), expected);
  EXPECT_EQ(run(2), expected);
  EXPECT_EQ(run(3), expected);
}

TEST_P(TransformerBehaviour, InferenceModelGivesTheSameLossAndLogits) {
  TransformerConfig deep = config();
  deep.encoder_layers = deep.decoder_layers = 5;
  TinyModel training(deep, dtype());
  TinyModel inference(deep, dtype(), 1, KeptActivations::kNone);
  const PackedBatch batch(sentences());
  // Inference does not round logits to bf16.
  const double loss = inference.evaluate(batch).loss;
  const double expected = training.evaluate(batch).loss;
  EXPECT_TRUE(testing::close(loss, expected, testing::tolerance_of(dtype()))) << loss << " and " << expected;
  EXPECT_EQ(inference.logits(batch), training.logits(batch));
  EXPECT_LT(inference.model().activation_bytes(), training.model().activation_bytes());
  EXPECT_THROW(inference.step(batch), Error);
}

TEST_P(TransformerBehaviour, GradientsAreFinalWhenTheyAreReady) {
  TinyModel tiny(config(), dtype());
  const PackedBatch batch(sentences());
  tiny.zero_gradients();
  std::map<int64_t, std::vector<double>> seen;
  std::vector<int64_t> begins;
  tiny.step(batch, {}, [&](int64_t begin) {
    begins.push_back(begin);
    seen[begin] = tiny.gradients();
  });
  const auto final = tiny.gradients();
  ASSERT_GE(begins.size(), 6U);  // two layers a stack, the keys and values of the memory, the embedding
  EXPECT_EQ(begins.back(), 0);
  for (size_t i = 1; i < begins.size(); ++i) EXPECT_LT(begins[i], begins[i - 1]);
  for (const auto& [begin, gradients] : seen) {
    for (size_t i = static_cast<size_t>(begin); i < final.size(); ++i) {
      ASSERT_EQ(gradients[i], final[i]) << "element " << i << " after " << begin << " was ready";
    }
  }
}

TEST(Transformer, ThatBeginsWithZerosDoesNotSeeTheBeginMark) {
  const PackedBatch batch(random_sentences({{3, 4}, {1, 7}}, 19, 9));
  for (const bool zero_start : {false, true}) {
    TransformerConfig config = testing::tiny_config(false);
    config.zero_start = zero_start;
    TinyModel tiny(config, DType::kF32, 1, KeptActivations::kNone);
    const auto width = static_cast<size_t>(config.padded_vocab());
    constexpr size_t kBegin = 1;
    std::vector<double> before = tiny.logits(batch);
    tiny.change_values([&](Tensor all) {
      const Tensor table = tiny.store().logical_block(all, *tiny.store().find("embedding"));
      for (int64_t c = 0; c < table.cols; ++c) table.row<float>(kBegin)[c] += 1.0F;
    });
    std::vector<double> after = tiny.logits(batch);
    for (size_t i = kBegin; i < before.size(); i += width) {  // its own logit may change
      EXPECT_NE(before[i], after[i]);
      before[i] = after[i] = 0.0;
    }
    EXPECT_EQ(before == after, zero_start);
  }
}

TEST(Transformer, EmptyMicroBatchAddsNothingAndIsReady) {
  TinyModel tiny(testing::tiny_config(false), DType::kF32);
  const PackedBatch empty({});
  tiny.fill(1.0);
  std::vector<int64_t> begins;
  const LossSums sums = tiny.step(empty, {}, [&](int64_t begin) { begins.push_back(begin); });
  EXPECT_EQ(sums.loss, 0.0);
  EXPECT_EQ(sums.nll, 0.0);
  EXPECT_EQ(begins, std::vector<int64_t>{0});
  EXPECT_EQ(tiny.gradients(), std::vector<double>(static_cast<size_t>(tiny.store().flat_size()), 1.0));
}

TEST(Transformer, MicroBatchBeyondTheCapacityIsRefused) {
  TinyModel tiny(testing::tiny_config(false), DType::kF32);
  const PackedBatch batch(random_sentences({{10, 5}, {10, 5}}, 19, 2), 64, 0);
  EXPECT_THROW(tiny.step(batch), Error);
}

/// Where products of bf16 are computed in f32, logits in training are what inference sees, not bf16 of that.
TEST_P(TransformerBehaviour, TheLossInTrainingIsThatOfLogitsInF32) {
  TinyModel trained(config(), dtype());
  TinyModel other(config(), dtype(), 1, KeptActivations::kNone);
  const PackedBatch batch(sentences());
  const LossSums expected = other.evaluate(batch);
  const LossSums got = trained.evaluate(batch);
  if (sums_in_one_chain(dtype())) {
    EXPECT_EQ(got.nll, expected.nll);
    EXPECT_EQ(got.loss, expected.loss);
  } else {
    EXPECT_NEAR(got.nll, expected.nll, expected.nll * 1e-2);
    EXPECT_NEAR(got.loss, expected.loss, expected.loss * 1e-2);
  }
}

TEST(Transformer, LayersThatAreComputedAgainGiveTheSameBits) {
  for (const bool pre_norm : {false, true}) {
    for (TransformerConfig config : {testing::tiny_config(pre_norm), testing::marian_config(pre_norm)}) {
      config.encoder_layers = 4;
      config.decoder_layers = 3;
      config.activation_dropout = 0.2F;
      for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16}) {
        TinyModel kept(config, dtype);
        TinyModel again(config, dtype, 1, KeptActivations::kLayerInputs);
        EXPECT_LT(again.model().activation_bytes(), kept.model().activation_bytes() + 1);
        for (uint32_t step = 1; step <= 4; ++step) {
          const PackedBatch batch(random_sentences({{2, 4}, {0, 0}, {5, 3}, {1, 6}}, 19, step));
          kept.zero_gradients();
          again.zero_gradients();
          const LossSums expected = kept.step(batch, {.step = step});
          const LossSums got = again.step(batch, {.step = step});
          EXPECT_EQ(got.loss, expected.loss);
          EXPECT_EQ(again.gradients(), kept.gradients())
              << name_of(dtype) << " pre-norm " << pre_norm << " step " << step;
        }
      }
    }
  }
}

TEST(Transformer, FlopsOfOneSentenceAreThoseOfItsProducts) {
  const TransformerConfig config = {
      .encoder_layers = 1, .decoder_layers = 1, .d_model = 4, .d_ff = 8, .heads = 2, .vocab_size = 10};
  const PackedBatch batch({{{5, 6}, {7}}});  // 3 source rows, 2 target rows
  const FlopCount count = training_flops(config, batch.source_offsets(), batch.target_offsets());
  EXPECT_EQ(count.encoder, 3 * 2 * 3 * (4 * 16 + 2 * 32));
  EXPECT_EQ(count.decoder, 3 * 2 * (2 * (6 * 16 + 2 * 32) + 3 * 2 * 16));
  EXPECT_EQ(count.output_projection, 3 * 2 * 2 * 4 * 10);
  EXPECT_EQ(count.encoder_attention, 3 * 2 * 2 * 4 * 9);
  EXPECT_EQ(count.decoder_attention, 3 * 2 * 2 * 4 * (3 + 6));
  EXPECT_EQ(count.total(), 2304 + 2496 + 480 + 432 + 432);
  FlopCount twice = count;
  twice += count;
  EXPECT_EQ(twice.total(), 2 * count.total());
}

}  // namespace
}  // namespace ventris
