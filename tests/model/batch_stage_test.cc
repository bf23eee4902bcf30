// SPDX-License-Identifier: Apache-2.0
// A micro-batch on its way to the device, with and without padding to one shape.
#include "model/batch_stage.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backend/device/error.h"
#include "tests/support/tiny_model.h"

namespace ventris {
namespace {

using testing::PackedBatch;
using testing::random_sentences;
using testing::TinyModel;

std::vector<int32_t> numbers(const int32_t* first, int64_t count) {
  return {first, first + count};
}

class BatchStageTest : public ::testing::Test {
 protected:
  void send(BatchStage& stage, const PackedBatch& batch) {
    stage.wait_until_sent();
    stage.fill(batch.view({.gradient_scale = 0.5F, .step = 9, .source_row_base = 40, .target_row_base = 50}));
    stage.send();
  }
  Context context_{ContextOptions{}};
  const MicroBatchCapacity capacity_ = {.source_rows = 30, .target_rows = 20, .sentences = 12};
  const PackedBatch batch_{{{{5, 6}, {7}}, {{8}, {9, 10, 11}}}};  // 5 source rows, 6 target rows
};

TEST_F(BatchStageTest, ExactRowsAreThoseOfTheBatch) {
  BatchStage stage(context_, capacity_, StagedRows::kExact);
  send(stage, batch_);
  const MicroBatch& got = stage.batch();
  EXPECT_EQ(got.sentences, 2);
  EXPECT_EQ(numbers(got.source_ids, got.source_rows), (std::vector<int32_t>{5, 6, 2, 8, 2}));
  EXPECT_EQ(numbers(got.source_position, 5), (std::vector<int32_t>{0, 1, 2, 0, 1}));
  EXPECT_EQ(numbers(got.source_offsets, 3), (std::vector<int32_t>{0, 3, 5}));
  EXPECT_EQ(numbers(got.target_ids, got.target_rows), (std::vector<int32_t>{1, 7, 1, 9, 10, 11}));
  EXPECT_EQ(numbers(got.target_position, 6), (std::vector<int32_t>{0, 1, 0, 1, 2, 3}));
  EXPECT_EQ(numbers(got.labels, 6), (std::vector<int32_t>{7, 2, 9, 10, 11, 2}));
  EXPECT_EQ(numbers(got.target_offsets, 3), (std::vector<int32_t>{0, 2, 6}));
  EXPECT_EQ(got.source_dropout->step, 9U);
  EXPECT_EQ(got.source_dropout->row_base, 40U);
  EXPECT_EQ(got.target_dropout->step, 9U);
  EXPECT_EQ(got.target_dropout->row_base, 50U);
  EXPECT_EQ(*got.gradient_scale, 0.5F);
}

TEST_F(BatchStageTest, CapacityRowsArePaddedAndSentencesEndEmpty) {
  BatchStage stage(context_, capacity_, StagedRows::kCapacity);
  send(stage, PackedBatch(random_sentences({{7, 6}, {9, 8}, {5, 2}}, 19, 4)));
  const int32_t* const address = stage.batch().labels;
  send(stage, batch_);
  const MicroBatch& got = stage.batch();
  EXPECT_EQ(got.labels, address);
  ASSERT_EQ(got.source_rows, 30);
  ASSERT_EQ(got.target_rows, 20);
  ASSERT_EQ(got.sentences, 12);
  EXPECT_EQ(numbers(got.source_ids + 5, 25), std::vector<int32_t>(25, 0));
  EXPECT_EQ(numbers(got.source_position + 5, 25), std::vector<int32_t>(25, 0));
  EXPECT_EQ(numbers(got.target_ids + 6, 14), std::vector<int32_t>(14, 0));
  EXPECT_EQ(numbers(got.target_position + 6, 14), std::vector<int32_t>(14, 0));
  EXPECT_EQ(numbers(got.labels + 6, 14), std::vector<int32_t>(14, 0));
  EXPECT_EQ(numbers(got.source_offsets + 2, 11), std::vector<int32_t>(11, 5));
  EXPECT_EQ(numbers(got.target_offsets + 2, 11), std::vector<int32_t>(11, 6));
  send(stage, PackedBatch({}));
  EXPECT_EQ(numbers(stage.batch().target_offsets, 13), std::vector<int32_t>(13, 0));
}

TEST_F(BatchStageTest, PaddedSentencesAreFewAndTheirNumberNeverFalls) {
  BatchStage stage(context_, {.source_rows = 400, .target_rows = 400, .sentences = 200},
                   StagedRows::kCapacity);
  const auto sentences_after = [&](size_t count) {
    send(stage, PackedBatch(std::vector<testing::SentencePair>(count, {{5}, {6}})));
    return stage.batch().sentences;
  };
  EXPECT_EQ(sentences_after(3), 64);
  EXPECT_EQ(sentences_after(70), 128);
  EXPECT_EQ(sentences_after(3), 128);
  EXPECT_EQ(sentences_after(195), 200);
}

TEST_F(BatchStageTest, SentencesHaveTheRoomThatOtherRanksNeed) {
  BatchStage stage(context_, {.source_rows = 400, .target_rows = 400, .sentences = 200},
                   StagedRows::kCapacity);
  HostBatch batch = batch_.view({});
  batch.max_sentences = 70;
  stage.fill(batch);
  EXPECT_EQ(stage.batch().sentences, 128);
}

TEST_F(BatchStageTest, PaddingFillsTheRoomOfTheBatchToTheNextTile) {
  BatchStage stage(context_, {.source_rows = 300, .target_rows = 512, .sentences = 12},
                   StagedRows::kCapacity);
  const auto rows_with = [&](int64_t source_room, int64_t target_room) {
    HostBatch batch = batch_.view({});
    batch.source_room = source_room;
    batch.target_room = target_room;
    stage.fill(batch);
    return std::pair(stage.batch().source_rows, stage.batch().target_rows);
  };
  EXPECT_EQ(rows_with(0, 0), std::pair(int64_t{300}, int64_t{512}));
  EXPECT_EQ(rows_with(128, 129), std::pair(int64_t{128}, int64_t{256}));
  EXPECT_EQ(rows_with(257, 512), std::pair(int64_t{300}, int64_t{512}));
  send(stage, batch_);  // nothing of it remains
  EXPECT_EQ(stage.batch().source_rows, 300);
}

TEST_F(BatchStageTest, RowsAreOrderedByTokensAndPositionsWithTheirPadding) {
  BatchStage stage(context_, capacity_, StagedRows::kExact, StagedOrders::kIdsAndPositions);
  send(stage, batch_);
  const MicroBatch& got = stage.batch();
  EXPECT_EQ(numbers(got.source_id_order, 5), (std::vector<int32_t>{2, 4, 0, 1, 3}));
  EXPECT_EQ(numbers(got.source_position_order, 5), (std::vector<int32_t>{0, 3, 1, 4, 2}));
  EXPECT_EQ(numbers(got.target_id_order, 6), (std::vector<int32_t>{0, 2, 1, 3, 4, 5}));
  EXPECT_EQ(numbers(got.target_position_order, 6), (std::vector<int32_t>{0, 2, 1, 3, 4, 5}));

  BatchStage padded(context_, {.source_rows = 7, .target_rows = 8, .sentences = 12}, StagedRows::kCapacity,
                    StagedOrders::kIds);
  send(padded, batch_);
  EXPECT_EQ(numbers(padded.batch().source_id_order, 7), (std::vector<int32_t>{5, 6, 2, 4, 0, 1, 3}));
  EXPECT_EQ(numbers(padded.batch().target_id_order, 8), (std::vector<int32_t>{6, 7, 0, 2, 1, 3, 4, 5}));
  EXPECT_EQ(padded.batch().source_position_order, nullptr);
  EXPECT_EQ(padded.batch().target_position_order, nullptr);

  BatchStage without(context_, capacity_, StagedRows::kExact);
  send(without, batch_);
  EXPECT_EQ(without.batch().source_id_order, nullptr);
}

TEST_F(BatchStageTest, EachTargetRowHasTheWeightOfItsSentence) {
  PackedBatch weighted = batch_;
  weighted.set_weights({0.5F, 3.0F});
  const auto floats = [](const MicroBatch& batch, int64_t count) {
    return std::vector<float>(batch.weights, batch.weights + count);
  };
  BatchStage exact(context_, capacity_, StagedRows::kExact, StagedOrders::kNone, StagedWeights::kRows);
  send(exact, weighted);
  EXPECT_EQ(floats(exact.batch(), 6), (std::vector<float>{0.5F, 0.5F, 3.0F, 3.0F, 3.0F, 3.0F}));
  send(exact, batch_);  // without weights all are 1
  EXPECT_EQ(floats(exact.batch(), 6), std::vector<float>(6, 1.0F));

  BatchStage padded(context_, capacity_, StagedRows::kCapacity, StagedOrders::kIdsAndPositions,
                    StagedWeights::kRows);
  send(padded, weighted);
  EXPECT_EQ(floats(padded.batch(), 6), (std::vector<float>{0.5F, 0.5F, 3.0F, 3.0F, 3.0F, 3.0F}));
  EXPECT_EQ(numbers(padded.batch().target_position_order, 3), (std::vector<int32_t>{0, 2, 6}));
}

TEST_F(BatchStageTest, WithoutWeightsNothingIsSentAndTheirArrivalIsRefused) {
  BatchStage stage(context_, capacity_, StagedRows::kExact);
  PackedBatch weighted = batch_;
  weighted.set_weights({0.5F, 3.0F});
  EXPECT_THROW(send(stage, weighted), Error);
  send(stage, batch_);
  EXPECT_EQ(stage.batch().weights, nullptr);
  const auto bytes = [&](StagedWeights weights) {
    return BatchStage::planned_bytes(capacity_, StagedOrders::kNone, weights);
  };
  EXPECT_EQ(bytes(StagedWeights::kRows) - bytes(StagedWeights::kNone), 128U);  // 20 rows, aligned
  BatchStage weights_of_others(context_, capacity_, StagedRows::kExact, StagedOrders::kNone,
                               StagedWeights::kRows);
  weighted.set_weights({0.5F});
  EXPECT_THROW(send(weights_of_others, weighted), Error);
}

TEST(TrainingOrders, AreThoseThatTheDeviceNeeds) {
  const TransformerConfig sinusoids = testing::tiny_config(false),
                          learned = testing::tiny_config(false, true);
  EXPECT_EQ(training_orders(Device::kCpu, learned), StagedOrders::kNone);
  EXPECT_EQ(training_orders(Device::kCuda, sinusoids), StagedOrders::kIds);
  EXPECT_EQ(training_orders(Device::kCuda, learned), StagedOrders::kIdsAndPositions);
}

TEST_F(BatchStageTest, RefusesWhatDoesNotFit) {
  BatchStage stage(context_, capacity_, StagedRows::kExact);
  EXPECT_THROW(send(stage, PackedBatch(random_sentences({{29, 3}, {1, 3}}, 19, 4))), Error);
  EXPECT_THROW(send(stage, PackedBatch(random_sentences({{3, 20}}, 19, 4))), Error);
  EXPECT_THROW(send(stage, PackedBatch(std::vector<testing::SentencePair>(13, {{5}, {}}))), Error);
}

class PaddedTraining : public ::testing::TestWithParam<std::tuple<bool, DType>> {};

/// Loss and gradients of one shape for all batches are those of the rows that there are: each row's numbers
/// have the same bits, sums over rows may be cut elsewhere.
TEST_P(PaddedTraining, GivesTheLossAndGradientsOfTheExactBatch) {
  const auto [pre_norm, dtype] = GetParam();
  TinyModel exact(testing::tiny_config(pre_norm, /*learned_positions=*/true), dtype);
  TinyModel padded(exact.config(), dtype, 1, KeptActivations::kAll, StagedRows::kCapacity);
  const PackedBatch larger(random_sentences({{14, 13}, {12, 14}, {13, 12}}, 19, 3));
  const PackedBatch batch(random_sentences({{3, 4}, {1, 7}, {0, 0}, {6, 2}}, 19, 9));
  padded.step(larger);  // leaves its numbers in the rows of padding
  exact.zero_gradients();
  padded.zero_gradients();
  const testing::BatchKeys keys = {.gradient_scale = 0.25F, .source_row_base = 7, .target_row_base = 5};
  const LossSums expected = exact.step(batch, keys);
  const LossSums got = padded.step(batch, keys);
  EXPECT_EQ(got.loss, expected.loss);
  EXPECT_EQ(got.nll, expected.nll);
  const std::vector<double> wanted = exact.gradients();
  const std::vector<double> gradients = padded.gradients();
  double difference = 0.0;
  double norm = 0.0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    difference += std::pow(gradients[i] - wanted[i], 2);
    norm += wanted[i] * wanted[i];
  }
  EXPECT_GT(norm, 0.0);
  EXPECT_LE(std::sqrt(difference / norm), dtype == DType::kF64 ? 1e-12 : dtype == DType::kF32 ? 1e-6 : 1e-2);
  EXPECT_EQ(padded.evaluate(batch).loss, exact.evaluate(batch).loss);
}

INSTANTIATE_TEST_SUITE_P(Variants, PaddedTraining,
                         ::testing::Combine(::testing::Bool(),
                                            ::testing::Values(DType::kF32, DType::kBF16, DType::kF64)),
                         [](const auto& instance) {
                           return std::string(std::get<0>(instance.param) ? "pre_norm_" : "post_norm_") +
                                  name_of(std::get<1>(instance.param));
                         });

TEST(LossSumsTest, AddUpOverMicroBatchesUntilTheyAreTaken) {
  TinyModel tiny(testing::tiny_config(false), DType::kF32);
  const PackedBatch first(random_sentences({{3, 4}}, 19, 1));
  const PackedBatch second(random_sentences({{5, 2}}, 19, 2));
  const double apart = tiny.evaluate(first).loss + tiny.evaluate(second).loss;
  tiny.model().evaluate(tiny.place(first));
  tiny.model().evaluate(tiny.place(second));
  EXPECT_NEAR(tiny.model().take_loss_sums().loss, apart, 1e-12 * apart);
  EXPECT_EQ(tiny.model().take_loss_sums().loss, 0.0);
}

}  // namespace
}  // namespace ventris
