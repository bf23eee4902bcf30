// SPDX-License-Identifier: Apache-2.0
#include "model/teachers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "model/flop_count.h"
#include "tests/support/compare.h"
#include "tests/support/tiny_teachers.h"

namespace ventris {
namespace {

using testing::PackedBatch;
using testing::random_sentences;
using testing::TinyModel;
using testing::TinyTeachers;

TransformerConfig without_dropout(TransformerConfig config) {
  config.dropout = config.attention_dropout = 0.0F;
  return config;
}

PackedBatch some_batch(int64_t padding = 0) {
  return PackedBatch(random_sentences({{3, 4}, {1, 7}, {0, 0}, {6, 2}}, 19, 5), 0, padding);
}

TEST(Teachers, OneThatIsTheStudentTeachesNothing) {
  for (const TransformerConfig& shape : {testing::tiny_config(false), testing::marian_config(true)}) {
    for (const DType dtype : {DType::kF32, DType::kF64}) {
      for (const float temperature : {1.0F, 2.0F}) {
        const TransformerConfig config = without_dropout(shape);
        TinyModel student(config, dtype);
        student.zero_gradients();
        const LossSums plain = student.step(some_batch());
        const std::vector<double> of_labels = student.gradients();
        const TinyTeachers teachers(student, {config},
                                    {.weight = 1.0F, .temperature = temperature, .top_k = 0});
        student.zero_gradients();
        const LossSums taught = student.step(some_batch());
        EXPECT_EQ(taught.nll, plain.nll);
        EXPECT_NE(taught.loss, plain.loss);
        EXPECT_GT(taught.loss, 1.0);  // the entropy of the distributions
        double largest = 0.0;
        for (const double gradient : of_labels) largest = std::max(largest, std::abs(gradient));
        EXPECT_GT(largest, 1.0);
        for (const double gradient : student.gradients())
          ASSERT_NEAR(gradient, 0.0, dtype == DType::kF32 ? 2e-5 : 1e-13);
      }
    }
  }
}

TEST(Teachers, OfWeightZeroChangeNoBit) {
  const TransformerConfig config = testing::tiny_config(false);
  for (const DType dtype : testing::kAllDTypes) {
    TinyModel student(config, dtype);
    const auto step = [&] {
      student.zero_gradients();
      std::vector<double> result;
      const LossSums sums = student.step(some_batch());
      result = student.gradients();
      result.insert(result.end(), {sums.loss, sums.nll});
      return result;
    };
    const std::vector<double> plain = step();
    for (const int top_k : {0, 8}) {
      for (const float temperature : {1.0F, 2.0F}) {
        const TinyTeachers teachers(student, {testing::other_shape(config), config},
                                    {.weight = 0.0F, .temperature = temperature, .top_k = top_k});
        EXPECT_EQ(step(), plain);
      }
    }
    EXPECT_EQ(step(), plain);
  }
}

/// The distributions of all teachers for the rows, by their logits.
std::vector<std::vector<double>> mean_of(TinyTeachers& teachers, size_t count, const PackedBatch& batch,
                                         const TransformerConfig& student, double temperature) {
  std::vector<std::vector<double>> mean(static_cast<size_t>(batch.target_rows()),
                                        std::vector<double>(static_cast<size_t>(student.vocab_size)));
  for (size_t i = 0; i < count; ++i) {
    const std::vector<double> logits = teachers.model(i).logits(batch);
    for (size_t t = 0; t < mean.size(); ++t) {
      const double* row = logits.data() + t * static_cast<size_t>(student.padded_vocab());
      double sum = 0.0;
      for (size_t w = 0; w < mean[t].size(); ++w) sum += std::exp(row[w] / temperature);
      for (size_t w = 0; w < mean[t].size(); ++w)
        mean[t][w] += std::exp(row[w] / temperature) / sum / static_cast<double>(count);
    }
  }
  return mean;
}

TEST(Teachers, TeachTheMeanOfTheirDistributions) {
  const TransformerConfig config = testing::tiny_config(false);
  const std::vector<TransformerConfig> shapes = {testing::other_shape(config), config,
                                                 testing::marian_config(true)};
  const PackedBatch batch = some_batch();
  for (const size_t count : {size_t{1}, size_t{3}}) {
    for (const int top_k : {0, 1, 5, 200}) {
      SCOPED_TRACE(::testing::Message() << count << " teachers, k " << top_k);
      TinyModel student(config, DType::kF64);
      TinyTeachers teachers(student, {shapes.begin(), shapes.begin() + static_cast<std::ptrdiff_t>(count)},
                            {.weight = 0.25F, .temperature = 1.5F, .top_k = top_k});
      const auto mean = mean_of(teachers, count, batch, config, 1.5);
      const MicroBatch& placed = student.place(batch);
      teachers.teachers().forward(placed);
      Arena memory(Device::kCpu, size_t{1} << 16);
      for (const int64_t begin : {0, 6}) {  // rows of a first and of a later chunk
        const int64_t rows = begin == 0 ? 6 : batch.target_rows() - 6;
        const Tensor room = memory.allocate(rows, config.padded_vocab(), DType::kF64);
        const SoftTargets got = teachers.teachers().targets(begin, room);
        EXPECT_EQ(got.weight, 0.25F);
        EXPECT_EQ(got.temperature, 1.5F);
        ASSERT_EQ(got.probabilities.rows, rows);
        ASSERT_EQ(got.probabilities.cols, top_k == 0 ? 19 : std::min(top_k, 19));
        for (int64_t t = 0; t < rows; ++t) {
          const std::vector<double>& expected = mean[static_cast<size_t>(begin + t)];
          std::vector<int32_t> order(expected.size());
          std::iota(order.begin(), order.end(), 0);
          if (top_k > 0) {
            std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
              return expected[static_cast<size_t>(a)] > expected[static_cast<size_t>(b)];
            });
          }
          double sum = 0.0;
          for (int64_t i = 0; i < got.probabilities.cols; ++i)
            sum += expected[static_cast<size_t>(order[static_cast<size_t>(i)])];
          for (int64_t i = 0; i < got.probabilities.cols; ++i) {
            const int32_t token = order[static_cast<size_t>(i)];
            if (top_k > 0) {
              ASSERT_EQ(got.indices[t * got.probabilities.cols + i], token);
            }
            // 1 / count is of f32.
            ASSERT_NEAR(got.probabilities.row<double>(t)[i], expected[static_cast<size_t>(token)] / sum,
                        1e-7);
          }
        }
      }
    }
  }
}

TEST(Teachers, BitsDependNeitherOnThreadsNorOnPadding) {
  const TransformerConfig config = testing::tiny_config(true);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int top_k : {0, 4}) {
      const auto step = [&](int threads, int64_t padding) {
        TinyModel student(config, dtype, threads);
        const TinyTeachers teachers(student, {testing::other_shape(config), config},
                                    {.weight = 0.5F, .temperature = 1.5F, .top_k = top_k});
        student.zero_gradients();
        const LossSums sums = student.step(some_batch(padding));
        std::vector<double> result = student.gradients();
        result.insert(result.end(), {sums.loss, sums.nll});
        return result;
      };
      const std::vector<double> one = step(1, 0);
      EXPECT_EQ(step(3, 0), one);
      EXPECT_EQ(step(1, 9), one);
    }
  }
}

TEST(Teachers, AreNotAskedInAValidation) {
  const TransformerConfig config = testing::tiny_config(false);
  TinyModel student(config, DType::kF32);
  const LossSums plain = student.evaluate(some_batch());
  const TinyTeachers teachers(student, {testing::other_shape(config)},
                              {.weight = 1.0F, .temperature = 1.0F, .top_k = 8});
  const LossSums taught = student.evaluate(some_batch());
  EXPECT_EQ(taught.loss, plain.loss);
  EXPECT_EQ(taught.nll, plain.nll);
}

TEST(Teachers, CountTheirForwardPass) {
  const TransformerConfig student = testing::tiny_config(false);
  const TransformerConfig teacher = testing::other_shape(student);
  const PackedBatch batch = some_batch();
  const auto of = [&](const TransformerConfig& config) {
    return training_flops(config, all_layers(config), batch.source_offsets(), batch.target_offsets());
  };
  FlopCount count = of(student);
  add_teacher_flops(count, teacher, batch.source_offsets(), batch.target_offsets());
  add_teacher_flops(count, teacher, batch.source_offsets(), batch.target_offsets());
  EXPECT_DOUBLE_EQ(count.teachers_output, 2 * of(teacher).output_projection / 3);
  EXPECT_DOUBLE_EQ(count.total(), of(student).total() + 2 * of(teacher).total() / 3);
}

TEST(Teachers, MemoryIsOfAllDistributionsOnlyWhereTheyAreNeeded) {
  TransformerConfig student = testing::tiny_config(false);
  student.vocab_size = 4000;
  const MicroBatchCapacity capacity = {.source_rows = 256, .target_rows = 256, .sentences = 32};
  const auto bytes = [&](size_t teachers, int top_k) {
    return static_cast<int64_t>(Teachers::planned_bytes(
        std::vector<TransformerConfig>(teachers, testing::other_shape(student)),
        {.weight = 0.5F, .temperature = 1.0F, .top_k = top_k}, student, Device::kCpu, DType::kF32, capacity));
  };
  const int64_t distributions = 256 * student.padded_vocab() * 4;
  EXPECT_GT(bytes(1, 0) - bytes(1, 8), distributions - 256 * 8 * 9);
  EXPECT_GT(bytes(2, 8) - bytes(1, 8), distributions);
  EXPECT_LT(bytes(1, 8), distributions);
}

}  // namespace
}  // namespace ventris
