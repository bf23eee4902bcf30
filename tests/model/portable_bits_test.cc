// SPDX-License-Identifier: Apache-2.0
// f32 has the same bits on every processor, with every compiler, C library and width of vectors: those of the
// digests here, and so has int8 of f32 models. Where a change of an operation's order of summation is meant,
// the new digests are to be the same in builds for AVX2, AVX-512 and another architecture.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "backend/ops/adam.h"
#include "backend/ops/global_norm.h"
#include "backend/ops/update_plan.h"
#include "model/transformer_parameters.h"
#include "tests/support/tiny_model.h"

namespace ventris {
namespace {

using testing::PackedBatch;
using testing::random_sentences;
using testing::TinyModel;

/// FNV-1a, 64 bits (Fowler, Noll and Vo).
uint64_t digest_of(const void* data, size_t bytes) {
  uint64_t hash = 0xCBF29CE484222325U;
  for (size_t i = 0; i < bytes; ++i)
    hash = (hash ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001B3U;
  return hash;
}

struct BitsVariant {
  const char* name;
  TransformerConfig config;
  uint64_t values;    // digest of the parameters after the steps
  uint64_t log_sums;  // of log p of every target token then
  uint64_t in_int8;   // of the same with 8-bit weights
};

/// No extent is a multiple of the lanes of any processor; sentences are shorter and longer than they.
TransformerConfig bits_shaped(TransformerConfig config) {
  config.d_model = 78;
  config.d_ff = 101;
  config.heads = 3;
  config.vocab_size = 331;
  config.max_positions = 64;
  return config;
}

class PortableBits : public ::testing::TestWithParam<BitsVariant> {
 protected:
  static constexpr int kSteps = 8;

  PortableBits()
      : model_(GetParam().config, DType::kF32, {.threads = 1}, KeptActivations::kAll, StagedRows::kExact) {
    // What the fixture drew depends on the C library.
    model_.store().initialize(model_.context(), 7);
    model_.change_values([](Tensor all) {
      for (int64_t i = 0; i < all.cols; ++i)
        all.as<float>()[i] += static_cast<float>(i * 2654435761 % 1024 - 512) * 0x1p-14F;
    });
  }

  void step(uint32_t number) {
    const auto elements = static_cast<size_t>(model_.store().flat_size());
    if (m_.empty()) m_.resize(elements);
    if (v_.empty()) v_.resize(elements);
    const PackedBatch batch(random_sentences({{34, 25}, {9, 20}, {5, 1}, {1, 7}}, 331, number));
    const testing::BatchKeys keys = {.gradient_scale = 1.0F / 57, .step = number};
    model_.zero_gradients();
    const LossSums sums = model_.step(batch, keys);
    const double losses[2] = {sums.loss, sums.nll};
    double squares = 0.0;
    Context& context = model_.context();
    sum_of_squares(context, {.x = model_.store().gradients(), .result = &squares});
    const float rate = 0.01F;
    AdamScalars scalars{};
    StepOutcome outcome{};
    plan_update(context, {.loss_sums = losses,
                          .sum_of_squares = &squares,
                          .learning_rate = &rate,
                          .clip_norm = 0.5,
                          .updates = &updates_,
                          .scalars = &scalars,
                          .outcome = &outcome});
    EXPECT_EQ(outcome.skipped, 0);
    const int64_t n = model_.store().flat_size();
    adam(context, {.value = model_.store().values(),
                   .gradient = model_.store().gradients(),
                   .m = {m_.data(), 1, n, n, DType::kF32},
                   .v = {v_.data(), 1, n, n, DType::kF32},
                   .scalars = &scalars});
  }

  TinyModel model_;
  std::vector<float> m_, v_;
  int64_t updates_ = 0;
};

TEST_P(PortableBits, ATrainedModelIsTheOneOfEveryProcessor) {
  for (uint32_t number = 1; number <= kSteps; ++number) step(number);
  const Tensor values = model_.store().values();
  EXPECT_EQ(digest_of(values.data, static_cast<size_t>(values.cols) * sizeof(float)), GetParam().values)
      << std::hex << digest_of(values.data, static_cast<size_t>(values.cols) * sizeof(float));
  const PackedBatch batch(random_sentences({{33, 30}, {2, 17}}, 331, 99));
  std::vector<float> log_sums(static_cast<size_t>(batch.target_rows()));
  model_.model().log_probabilities(model_.place(batch), log_sums.data());
  EXPECT_EQ(digest_of(log_sums.data(), log_sums.size() * sizeof(float)), GetParam().log_sums)
      << std::hex << digest_of(log_sums.data(), log_sums.size() * sizeof(float));
  pack_parameters(model_.context(), model_.ids(), model_.store(), Packing::kInt8);
  Transformer packed(model_.context(), model_.config(), model_.store(), model_.ids(), TinyModel::kCapacity,
                     KeptActivations::kNone);
  packed.log_probabilities(model_.place(batch), log_sums.data());
  EXPECT_EQ(digest_of(log_sums.data(), log_sums.size() * sizeof(float)), GetParam().in_int8)
      << std::hex << digest_of(log_sums.data(), log_sums.size() * sizeof(float));
}

INSTANTIATE_TEST_SUITE_P(
    Models, PortableBits,
    ::testing::Values(BitsVariant{"post_norm", bits_shaped(testing::tiny_config(false)), 0x4709f4b7e2de1699,
                                  0x6d956f0a881c3dd8, 0x7eada4c94d955f89},
                      BitsVariant{"pre_norm", bits_shaped(testing::tiny_config(true)), 0x764903eb73cc8e86,
                                  0xa883e48fe883e978, 0x441dffa7c2ce8755},
                      BitsVariant{"marian", bits_shaped(testing::marian_config(false)), 0x0e4cf2ef6fd1236b,
                                  0xcb254b58e76cd28e, 0xf2ddf2328258ae70}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace ventris
