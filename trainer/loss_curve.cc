// SPDX-License-Identifier: Apache-2.0
#include "trainer/loss_curve.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "data/text/unicode.h"

namespace ventris {
namespace {

/// The means of the points of each column of dots, on lines between them.
std::vector<double> resampled(const std::vector<CurvePoint>& points, size_t dots) {
  std::vector<double> sums(dots, 0.0);
  std::vector<int64_t> counts(dots, 0);
  const auto first = static_cast<double>(points.front().step);
  const double range = static_cast<double>(points.back().step) - first;
  for (const CurvePoint& point : points) {
    const double part = range > 0.0 ? (static_cast<double>(point.step) - first) / range : 0.0;
    const auto x = static_cast<size_t>(std::lround(part * static_cast<double>(dots - 1)));
    sums[x] += point.value;
    ++counts[x];
  }
  std::vector<double> means;
  size_t last = 0;  // column with points
  for (size_t x = 0; x < dots; ++x) {
    if (counts[x] == 0) continue;
    const double mean = sums[x] / static_cast<double>(counts[x]);
    for (size_t between = means.size(); between < x; ++between) {
      const double part = static_cast<double>(between - last) / static_cast<double>(x - last);
      means.push_back(means[last] + part * (mean - means[last]));
    }
    means.push_back(mean);
    last = x;
  }
  return means;
}

/// Rows of dots from the top, of which column x has the one at y[x]. In braille also those between it and the
/// one before, so that the line has no gaps.
std::vector<std::string> braille(const std::vector<size_t>& y, size_t columns, size_t rows) {
  // By column and row of dots in a cell (Unicode, "Braille Patterns").
  constexpr char32_t kDots[2][4] = {{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}};
  std::vector<std::u32string> cells(rows, std::u32string(columns, U'\u2800'));
  for (size_t x = 0; x < y.size(); ++x) {
    const size_t before = x == 0 ? y[x] : y[x - 1];
    const size_t from = before < y[x] ? before + 1 : y[x];
    const size_t to = before > y[x] ? before - 1 : y[x];
    for (size_t row = from; row <= to; ++row) cells[row / 4][x / 2] |= kDots[x % 2][row % 4];
  }
  std::vector<std::string> text;
  for (std::u32string& row : cells) {
    std::ranges::replace(row, U'\u2800', U' ');
    text.push_back(data::unicode::encode(row));
  }
  return text;
}

std::vector<std::string> ascii(const std::vector<size_t>& y, size_t columns, size_t rows) {
  constexpr std::string_view kMarks = "'-_";  // at the top, in the middle and at the bottom of a cell
  std::vector<std::string> text(rows, std::string(columns, ' '));
  for (size_t x = 0; x < y.size(); ++x) text[y[x] / 3][x] = kMarks[y[x] % 3];
  return text;
}

}  // namespace

void LossCurve::add(const CurvePoint& point) {
  if (!std::isfinite(point.value)) return;
  while (!points_.empty() && points_.back().step >= point.step) points_.pop_back();
  if (points_.size() == kMaxPoints) {
    for (size_t i = 0; i < kMaxPoints / 2; ++i) {
      const CurvePoint& a = points_[2 * i];
      const CurvePoint& b = points_[2 * i + 1];
      // The first step remains that of the curve.
      points_[i] = {.step = i == 0 ? a.step : b.step, .value = 0.5 * (a.value + b.value)};
    }
    points_.resize(kMaxPoints / 2);
  }
  points_.push_back(point);
}

DrawnCurve draw_curve(const std::vector<CurvePoint>& points, size_t columns, size_t rows, Charset charset) {
  const bool dots = charset == Charset::kUtf8;
  if (points.empty()) return {.rows = std::vector<std::string>(rows, std::string(columns, ' '))};
  const std::vector<double> values = resampled(points, dots ? 2 * columns : columns);
  const auto [low, high] = std::ranges::minmax(values);
  const size_t bottom = (dots ? 4 : 3) * rows - 1;
  std::vector<size_t> y;
  for (const double value : values) {
    const double part = high > low ? (high - value) / (high - low) : 0.5;
    y.push_back(static_cast<size_t>(std::lround(part * static_cast<double>(bottom))));
  }
  return {.rows = dots ? braille(y, columns, rows) : ascii(y, columns, rows), .low = low, .high = high};
}

}  // namespace ventris
