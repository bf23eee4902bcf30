// SPDX-License-Identifier: Apache-2.0
// The whole model on the emulated CUDA device: against PyTorch, and against the CPU.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/search/beam_search.h"
#include "model/search/target_scores.h"
#include "tests/support/golden_model.h"
#include "tests/support/tiny_model.h"
#include "tests/support/tolerance.h"

namespace ventris {
namespace {

using testing::PackedBatch;
using testing::random_sentences;
using testing::TinyModel;

ContextOptions emulated_cuda() {
  return {.device = Device::kCuda, .scratch_bytes = size_t{1} << 20};
}

class CudaGolden : public ::testing::TestWithParam<std::tuple<const char*, DType>> {};

TEST_P(CudaGolden, LogitsLossGradientsAndTenStepsAgreeWithPyTorch) {
  const auto [name, dtype] = GetParam();
  testing::check_golden_model(name, dtype, emulated_cuda());
}

INSTANTIATE_TEST_SUITE_P(Models, CudaGolden,
                         ::testing::Combine(::testing::Values("post_norm", "pre_norm", "two_tables",
                                                              "three_tables", "gelu", "swish", "head_32",
                                                              "head_64"),
                                            ::testing::Values(DType::kF32, DType::kBF16)),
                         [](const auto& instance) {
                           return std::string(std::get<0>(instance.param)) + "_" +
                                  name_of(std::get<1>(instance.param));
                         });

std::vector<TransformerConfig> kinds() {
  std::vector<TransformerConfig> configs = {testing::tiny_config(false), testing::tiny_config(true, true),
                                            testing::marian_config(false), testing::marian_config(true)};
  for (const Tie tie : {Tie::kDecoder, Tie::kNone}) {
    configs.push_back(testing::two_vocabularies(testing::tiny_config(tie == Tie::kNone), tie));
    configs.back().zero_token = 1;
  }
  return configs;
}

/// Dropout on, two micro-batches, the second with weights, padding of rows and sentences on the device alone.
void expect_steps_of_the_cpu(TinyModel& cpu, TinyModel& device) {
  cpu.zero_gradients();
  device.zero_gradients();
  for (const uint32_t seed : {1U, 2U}) {
    PackedBatch batch(
        random_sentences({{3, 4}, {1, 7}, {0, 0}, {6, 2}}, 19, seed, cpu.config().source_vocab()));
    if (seed == 2) batch.set_weights({0.5F, 2.5F, 1.0F, 0.0F});
    const testing::BatchKeys keys = {.gradient_scale = 0.25F, .source_row_base = 16 * seed};
    const LossSums expected = cpu.step(batch, keys);
    const LossSums got = device.step(batch, keys);
    EXPECT_NEAR(got.loss, expected.loss, 1e-5 * expected.loss);
    EXPECT_NEAR(got.nll, expected.nll, 1e-5 * expected.nll);
  }
  const std::vector<double> expected = cpu.gradients();
  const std::vector<double> got = device.gradients();
  const testing::Tolerance tolerance = testing::tolerance_of(DType::kF32);
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE(testing::close(got[i], expected[i], tolerance))
        << "element " << i << " is " << got[i] << ", not " << expected[i];
  }
}

TEST(CudaModel, LossesAndGradientsAreThoseOfTheCpu) {
  for (const TransformerConfig& config : kinds()) {
    TinyModel cpu(config, DType::kF32);
    TinyModel device(config, DType::kF32, emulated_cuda());
    expect_steps_of_the_cpu(cpu, device);
  }
}

/// Whole tensors, parts of fused ones, and a table.
TEST(CudaModel, GradientsOfWhatIsNotFrozenAreThoseOfTheCpu) {
  for (const TransformerConfig& config : kinds()) {
    const std::vector<std::string> freeze = {
        "encoder/layers/0/self_attention/query/weight", "encoder/layers/0/feed_forward/inner/bias",
        "encoder/layers/1/self_attention/norm/gamma",   "decoder/layers/0/cross_attention/value/bias",
        "decoder/layers/1/feed_forward/norm/beta",      name_of_target_embedding(config.tie)};
    TinyModel cpu(config, DType::kF32, ContextOptions{}, KeptActivations::kAll, StagedRows::kExact, freeze);
    TinyModel device(config, DType::kF32, emulated_cuda(), KeptActivations::kAll,
                     staged_rows_of(Device::kCuda), freeze);
    expect_steps_of_the_cpu(cpu, device);
  }
}

void expect_same(const std::vector<Hypothesis>& got, const std::vector<Hypothesis>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].tokens, expected[i].tokens) << "hypothesis " << i;
    EXPECT_NEAR(got[i].log_probability, expected[i].log_probability, 1e-4);
  }
}

TEST(CudaModel, TranslationsAreThoseOfTheCpu) {
  const auto pairs = random_sentences({{3, 0}, {7, 0}, {1, 0}, {5, 0}}, 19, 5);
  std::vector<std::vector<int32_t>> sources = {{}};
  for (const auto& pair : pairs) sources.push_back(pair.source);
  for (const TransformerConfig& config : {testing::tiny_config(false), testing::marian_config(true)}) {
    for (const BeamSearchOptions& options :
         {BeamSearchOptions{.beam_size = 3, .n_best = 2}, BeamSearchOptions{.sample = true},
          BeamSearchOptions{.min_length = 5, .no_repeat_ngram = 1, .repetition_penalty = 1.3F}}) {
      const auto translate = [&](const ContextOptions& device, int64_t batch_rows) {
        TinyModel tiny(config, DType::kF32, device);
        BeamSearchOptions with = options;
        with.max_extra_length = 4;
        with.batch_rows = batch_rows;
        BeamSearch search(tiny.context(), config, tiny.store(), tiny.ids(), with);
        return search.translate(sources);
      };
      const auto expected = translate({}, 14);
      for (const int64_t batch_rows : {14, 0}) {  // in parts, and as suits the device
        const auto got = translate(emulated_cuda(), batch_rows);
        for (size_t s = 0; s < sources.size(); ++s) expect_same(got[s], expected[s]);
      }
    }
  }
}

TEST(CudaModel, EnsemblesPrefixesAndScoresAreThoseOfTheCpu) {
  const std::vector<SourceSentence> sources = {{{5, 6, 7}, {9}}, {{8, 3}}, {{4, 11, 17, 3, 5}, {6, 6}}};
  const auto run = [&](const ContextOptions& device, std::vector<std::vector<float>>& scores) {
    TinyModel one(testing::tiny_config(false), DType::kF32, device);
    TinyModel other(testing::tiny_config(true), DType::kF32, device);
    const std::vector<SearchModel> models = {{one.config(), one.store(), one.ids()},
                                             {other.config(), other.store(), other.ids()}};
    synchronize(other.context());
    Context& context = one.context();
    auto found = BeamSearch(context, models, {.max_extra_length = 4, .n_best = 2}).translate(sources);
    std::vector<SentencePair> pairs;
    for (size_t s = 0; s < sources.size(); ++s) pairs.push_back({sources[s].tokens, found[s].at(0).tokens});
    scores = TargetScores(context, models, {.marks = testing::kTinyMarks}).score(pairs);
    return found;
  };
  std::vector<std::vector<float>> expected_scores;
  std::vector<std::vector<float>> scores;
  const auto expected = run({}, expected_scores);
  const auto got = run(emulated_cuda(), scores);
  for (size_t s = 0; s < sources.size(); ++s) {
    expect_same(got[s], expected[s]);
    ASSERT_EQ(scores[s].size(), expected_scores[s].size());
    for (size_t i = 0; i < scores[s].size(); ++i) EXPECT_NEAR(scores[s][i], expected_scores[s][i], 1e-4);
  }
}

}  // namespace
}  // namespace ventris
