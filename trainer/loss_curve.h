// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/terminal_text.h"

namespace ventris {

struct CurvePoint {
  int64_t step = 0;
  double value = 0.0;
};

/// The course of a value over a run, in bounded memory: when there are too many points, each becomes the mean
/// of two.
class LossCurve {
 public:
  static constexpr size_t kMaxPoints = 1024;

  /// Points of this step and later ones, of before a run went back, are forgotten. A value that is not finite
  /// is no point.
  void add(const CurvePoint& point);
  const std::vector<CurvePoint>& points() const { return points_; }

 private:
  std::vector<CurvePoint> points_;
};

/// A curve as text, and what its edges stand for.
struct DrawnCurve {
  std::vector<std::string> rows;  // from the top, each of `columns` cells
  double low = 0.0;               // value of the lowest dots
  double high = 0.0;              // of the highest
};

/// Draws points, whose steps increase: the first at the left, the last at the right edge, in dots of two by
/// four a cell (braille), or of one by three in ASCII. A column of dots shows the mean of its points; columns
/// without any are on the line between their neighbours. Requires columns and rows above 0. Without points
/// the rows are blank.
DrawnCurve draw_curve(const std::vector<CurvePoint>& points, size_t columns, size_t rows, Charset charset);

}  // namespace ventris
