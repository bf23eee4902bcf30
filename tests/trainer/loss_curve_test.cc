// SPDX-License-Identifier: Apache-2.0
#include "trainer/loss_curve.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace ventris {
namespace {

using Rows = std::vector<std::string>;

std::vector<CurvePoint> points_of(const std::vector<double>& values) {
  std::vector<CurvePoint> points;
  for (const double value : values)
    points.push_back({.step = static_cast<int64_t>(points.size()) * 10, .value = value});
  return points;
}

TEST(DrawCurve, IsOfDotsInTheRightPlaces) {
  // A falling line through 4 x 4 dots, and back up: braille has two columns of dots a cell.
  EXPECT_EQ(draw_curve(points_of({3, 2, 1, 0}), 2, 1, Charset::kUtf8).rows, (Rows{"⠑⢄"}));
  EXPECT_EQ(draw_curve(points_of({0, 1, 2, 3}), 2, 1, Charset::kUtf8).rows, (Rows{"⡠⠊"}));
  EXPECT_EQ(draw_curve(points_of({3, 2, 1, 0}), 4, 1, Charset::kAscii).rows, (Rows{"'--_"}));
  EXPECT_EQ(draw_curve(points_of({5, 4, 3, 2, 1, 0}), 6, 2, Charset::kAscii).rows,
            (Rows{"'-_   ", "   '-_"}));
}

TEST(DrawCurve, HasNoGapsWhereItIsSteep) {
  EXPECT_EQ(draw_curve(points_of({7, 0}), 1, 2, Charset::kUtf8).rows, (Rows{"⢱", "⢸"}));
}

TEST(DrawCurve, EmptyColumnsAreOnTheLineBetweenTheirNeighbours) {
  EXPECT_EQ(draw_curve({{.step = 0, .value = 2.0}, {.step = 30, .value = 0.0}}, 3, 1, Charset::kAscii).rows,
            (Rows{"'-_"}));
  // Of the x axis: the second point is at a tenth of it.
  EXPECT_EQ(draw_curve({{0, 2.0}, {10, 0.0}, {100, 0.0}}, 11, 1, Charset::kAscii).rows,
            (Rows{"'__________"}));
}

TEST(DrawCurve, AColumnShowsTheMeanOfItsPoints) {
  const DrawnCurve curve = draw_curve({{0, 4.0}, {10, 3.0}, {11, 1.0}, {20, 0.0}}, 3, 1, Charset::kAscii);
  EXPECT_EQ(curve.rows, (Rows{"'-_"}));
  EXPECT_EQ(curve.high, 4.0);
  EXPECT_EQ(curve.low, 0.0);
}

TEST(DrawCurve, AConstantIsInTheMiddle) {
  EXPECT_EQ(draw_curve(points_of({1, 1, 1}), 3, 1, Charset::kAscii).rows, (Rows{"---"}));
  EXPECT_EQ(draw_curve(points_of({1}), 3, 1, Charset::kAscii).rows, (Rows{"-  "}));
  EXPECT_EQ(draw_curve({}, 3, 2, Charset::kUtf8).rows, (Rows{"   ", "   "}));
}

TEST(LossCurve, KeepsACourseOfAnyLengthInBoundedMemory) {
  LossCurve curve;
  constexpr int64_t kSteps = 100000;
  for (int64_t step = 1; step <= kSteps; ++step)
    curve.add({.step = step, .value = static_cast<double>(step)});
  ASSERT_LE(curve.points().size(), LossCurve::kMaxPoints);
  ASSERT_GE(curve.points().size(), LossCurve::kMaxPoints / 2);
  EXPECT_EQ(curve.points().front().step, 1);
  EXPECT_EQ(curve.points().back().step, kSteps);
  for (size_t i = 1; i < curve.points().size(); ++i) {
    const CurvePoint& point = curve.points()[i];
    ASSERT_GT(point.step, curve.points()[i - 1].step);
    ASSERT_NEAR(point.value, static_cast<double>(point.step), 256.0) << i;
  }
}

TEST(LossCurve, ARunThatWentBackIsDrawnOnce) {
  LossCurve curve;
  for (const int64_t step : {10, 20, 30, 40}) curve.add({.step = step, .value = 1.0});
  curve.add({.step = 30, .value = 2.0});
  curve.add({.step = 35, .value = std::numeric_limits<double>::quiet_NaN()});
  ASSERT_EQ(curve.points().size(), 3U);
  EXPECT_EQ(curve.points().back().step, 30);
  EXPECT_EQ(curve.points().back().value, 2.0);
}

}  // namespace
}  // namespace ventris
