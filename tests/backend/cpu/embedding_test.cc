// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/embedding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "tests/support/compare.h"
#include "tests/support/finite_difference.h"

namespace ventris {
namespace {

using testing::Buffer;

const DropoutPosition kEmbeddingPosition = {.step = 9, .row_base = 11};

struct EmbeddingProblem {
  EmbeddingProblem(int64_t rows, int64_t d, DType dtype, float rate)
      : table(Buffer::random(kVocab, d, dtype, 1)),
        positions(Buffer::random(kPositions, d, master_dtype(dtype), 2)),
        d_out(Buffer::random(rows, d, dtype, 3)),
        out(rows, d, dtype),
        d_table(kVocab, d, master_dtype(dtype)),
        d_positions(kPositions, d, master_dtype(dtype)) {
    std::mt19937 generator(5);
    for (int64_t t = 0; t < rows; ++t) {
      ids.push_back(static_cast<int32_t>(generator() % kVocab));
      position.push_back(static_cast<int32_t>(t % kPositions));
    }
    key = {.rate = rate, .seed = 5, .place = 0x100, .position = &kEmbeddingPosition};
  }

  void forward() {
    embedding_forward(context, {.ids = ids.data(),
                                .position = position.data(),
                                .table = table.view(),
                                .positions = positions.view(),
                                .scale = kScale,
                                .zero_start = zero_start,
                                .dropout = key,
                                .out = out.view()});
  }

  void backward() {
    embedding_backward(context, {.ids = ids.data(),
                                 .position = position.data(),
                                 .d_out = d_out.view(),
                                 .scale = kScale,
                                 .zero_start = zero_start,
                                 .dropout = key,
                                 .d_table = d_table.view(),
                                 .d_positions = d_positions.view()});
  }

  Context context{{.scratch_bytes = 1 << 16}};
  static constexpr int64_t kVocab = 13;
  static constexpr int64_t kPositions = 5;
  static constexpr float kScale = 2.5F;
  bool zero_start = false;
  DropoutKey key;
  std::vector<int32_t> ids;
  std::vector<int32_t> position;
  Buffer table, positions, d_out, out, d_table, d_positions;
};

TEST(Embedding, BackwardMatchesFiniteDifferences) {
  for (const bool zero_start : {false, true}) {
    EmbeddingProblem p(17, 9, DType::kF64, 0.3F);
    p.zero_start = zero_start;
    const auto loss = [&] {
      p.forward();
      return testing::dot(p.out, p.d_out);
    };
    p.backward();
    testing::check_gradient("table", loss, p.table, p.d_table);
    testing::check_gradient("positions", loss, p.positions, p.d_positions);
  }
}

TEST(Embedding, RefusesIdsOutsideTheVocabulary) {
  EmbeddingProblem p(3, 4, DType::kF32, 0.0F);
  p.ids[2] = static_cast<int32_t>(EmbeddingProblem::kVocab);
  EXPECT_THROW(p.forward(), Error);
  EXPECT_THROW(p.backward(), Error);
  p.ids[2] = 0;
  p.position[1] = -1;
  EXPECT_THROW(p.forward(), Error);
}

TEST(SinusoidalPositions, FollowThePaper) {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    for (const int64_t d : {1, 7, 64, 512}) {
      Buffer positions(300, d, dtype);
      sinusoidal_positions(positions.view(), Sinusoids::kPaper);
      for (int64_t p = 0; p < 300; p += 23) {
        for (int64_t i = 0; 2 * i < d; ++i) {
          const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(d);
          const double angle = static_cast<double>(p) / std::pow(10000.0, exponent);
          ASSERT_NEAR(positions.get(p, 2 * i), std::sin(angle), 1e-6);
          if (2 * i + 1 < d) {
            ASSERT_NEAR(positions.get(p, 2 * i + 1), std::cos(angle), 1e-6);
          }
        }
      }
    }
  }
}

TEST(SinusoidalPositions, OfMarianReachTheSlowestFrequency) {
  constexpr int64_t kWidth = 6;
  Buffer positions(300, kWidth, DType::kF32);
  sinusoidal_positions(positions.view(), Sinusoids::kMarian);
  const double frequencies[] = {1.0, 0.01, 0.0001};
  for (int64_t p = 0; p < 300; p += 23) {
    for (int64_t i = 0; 2 * i < kWidth; ++i) {
      const double angle = static_cast<double>(p) * frequencies[i];
      ASSERT_NEAR(positions.get(p, 2 * i), std::sin(angle), 1e-6);
      ASSERT_NEAR(positions.get(p, 2 * i + 1), std::cos(angle), 1e-6);
    }
  }
  Buffer narrow(2, 2, DType::kF32);
  EXPECT_THROW(sinusoidal_positions(narrow.view(), Sinusoids::kMarian), Error);
}

}  // namespace
}  // namespace ventris
