// SPDX-License-Identifier: Apache-2.0
#include "backend/soft_targets.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "backend/cross_entropy.h"
#include "backend/tempered_softmax.h"
#include "tests/support/compare.h"
#include "tests/support/finite_difference.h"

namespace ventris {
namespace {

using testing::Buffer;
using testing::kAllDTypes;

/// The targets of a teacher for a student: rows of `vocab` tokens in `padded` columns.
struct Lesson {
  Lesson(int64_t rows, int64_t vocab, int64_t padded, int k, float temperature, DType dtype, int threads = 1)
      : vocab(vocab),
        k(k),
        temperature(temperature),
        tokens(static_cast<int32_t>(rows)),
        context({.threads = threads, .scratch_bytes = 1 << 16}),
        teacher(Buffer::random(rows, padded, dtype, 3, 2.0)),
        student(Buffer::random(rows, padded, dtype, 4, 2.0)),
        probabilities(rows, k == 0 ? vocab : k, master_dtype(dtype)),
        indices(static_cast<size_t>(rows * k)),
        loss(1, rows, master_dtype(dtype)),
        nll(1, rows, master_dtype(dtype)) {
    for (int64_t t = 0; t < rows; ++t) labels.push_back(static_cast<int32_t>(5 * t % vocab));
  }

  SoftTargets targets() {
    if (k == 0) {
      tempered_softmax(context, {.logits = teacher.view(),
                                 .temperature = temperature,
                                 .factor = 1.0F,
                                 .accumulate = false,
                                 .first_row = 0,
                                 .tokens = &tokens,
                                 .vocab = vocab,
                                 .probabilities = probabilities.view()});
    } else {
      soft_targets(context, {.scores = teacher.view(),
                             .are_logits = true,
                             .temperature = temperature,
                             .first_row = 0,
                             .tokens = &tokens,
                             .vocab = vocab,
                             .k = k,
                             .indices = indices.data(),
                             .probabilities = probabilities.view()});
    }
    return {.probabilities = probabilities.view(),
            .indices = k == 0 ? nullptr : indices.data(),
            .weight = weight,
            .temperature = temperature};
  }

  /// Runs on a copy of the student's logits and returns it: the gradient where wanted.
  Buffer run(bool gradient) {
    Buffer copy = student;
    cross_entropy(context, {.logits = copy.view(),
                            .labels = labels.data(),
                            .weights = nullptr,
                            .tokens = &tokens,
                            .vocab = vocab,
                            .smoothing = 0.1F,
                            .soft = targets(),
                            .gradient = gradient,
                            .gradient_scale = gradient ? &scale : nullptr,
                            .loss = loss.view(),
                            .nll = nll.view()});
    return copy;
  }

  int64_t vocab;
  int k;
  float temperature;
  float weight = 0.6F;
  float scale = 1.0F;
  int32_t tokens;
  Context context;
  Buffer teacher, student, probabilities;
  std::vector<int32_t> indices, labels;
  Buffer loss, nll;
};

TEST(SoftTargets, GradientMatchesFiniteDifferences) {
  for (const int k : {0, 1, 4, 13}) {
    for (const float temperature : {1.0F, 0.5F, 3.0F}) {
      SCOPED_TRACE(::testing::Message() << "k " << k << ", T " << temperature);
      Lesson lesson(5, 13, 16, k, temperature, DType::kF64);
      const Buffer gradient = lesson.run(true);
      const auto loss = [&] {
        lesson.run(false);
        double sum = 0.0;
        for (int64_t t = 0; t < 5; ++t) sum += lesson.loss.get(t);
        return sum;
      };
      testing::check_gradient("logits", loss, lesson.student, gradient);
    }
  }
}

TEST(SoftTargets, AStudentThatIsItsTeacherLearnsNothing) {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    for (const float temperature : {1.0F, 2.0F}) {
      Lesson lesson(5, 1009, 1024, 0, temperature, dtype);
      lesson.student = lesson.teacher;
      lesson.weight = 1.0F;
      const Buffer gradient = lesson.run(true);
      for (int64_t i = 0; i < gradient.size(); ++i)
        ASSERT_NEAR(gradient.get(i), 0.0, dtype == DType::kF32 ? 1e-7 : 1e-15) << i;
    }
  }
}

TEST(SoftTargets, WithOneTokenTheTargetIsTheMostProbable) {
  Lesson lesson(4, 13, 16, 1, 1.0F, DType::kF32);
  lesson.weight = 1.0F;
  lesson.run(false);
  for (int64_t t = 0; t < 4; ++t) {
    EXPECT_EQ(lesson.probabilities.get(t), 1.0);
    double sum = 0.0;
    for (int64_t w = 0; w < 13; ++w) sum += std::exp(lesson.student.get(t, w));
    const int32_t best = lesson.indices[static_cast<size_t>(t)];
    EXPECT_NEAR(lesson.loss.get(t), std::log(sum) - lesson.student.get(t, best), 1e-5);
  }
}

TEST(SoftTargets, BitsDoNotDependOnTheNumberOfThreads) {
  for (const DType dtype : kAllDTypes) {
    for (const int k : {0, 9}) {
      Lesson one(41, 311, 320, k, 1.5F, dtype);
      const Buffer gradient = one.run(true);
      for (const int threads : {2, 3}) {
        Lesson many(41, 311, 320, k, 1.5F, dtype, threads);
        testing::expect_same_bits("gradient", gradient, many.run(true));
        testing::expect_same_bits("loss", one.loss, many.loss);
        testing::expect_same_bits("probabilities", one.probabilities, many.probabilities);
        EXPECT_EQ(one.indices, many.indices);
      }
    }
  }
}

TEST(SoftTargets, RefusesWhatMakesNoSense) {
  EXPECT_THROW(Lesson(2, 7, 8, 8, 1.0F, DType::kF32).run(true), Error);
  EXPECT_THROW(Lesson(2, 7, 8, 2, 0.0F, DType::kF32).run(true), Error);
  EXPECT_THROW(Lesson(2, 7, 8, 0, -1.0F, DType::kF32).run(true), Error);
  EXPECT_THROW(Lesson(2, 300, 300, 257, 1.0F, DType::kF32).run(true), Error);
  Lesson lesson(2, 7, 8, 2, 1.0F, DType::kF32);
  SoftTargets targets = lesson.targets();
  lesson.indices[3] = 7;
  const auto run = [&] {
    cross_entropy(lesson.context, {.logits = lesson.student.view(),
                                   .labels = lesson.labels.data(),
                                   .weights = nullptr,
                                   .tokens = &lesson.tokens,
                                   .vocab = 7,
                                   .smoothing = 0.0F,
                                   .soft = targets,
                                   .gradient = false,
                                   .loss = lesson.loss.view(),
                                   .nll = lesson.nll.view()});
  };
  EXPECT_THROW(run(), Error);
  lesson.indices[3] = 6;
  targets.weight = 1.5F;
  EXPECT_THROW(run(), Error);
}

}  // namespace
}  // namespace ventris
