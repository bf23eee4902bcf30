// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/device/dtype.h"

namespace ventris {

/// How far a result of one dtype may be from the f64 (or f32) reference:
/// |got - expected| <= absolute + relative * |expected|.
struct Tolerance {
  double absolute;
  double relative;
};

/// The one table of tolerances, by dtype of the activations, for results whose magnitude is about 1.
inline Tolerance tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return {1e-9, 1e-7};
    case DType::kF32:
      return {2e-5, 2e-4};
    case DType::kBF16:
      return {3e-2, 3e-2};
  }
  return {0.0, 0.0};
}

}  // namespace ventris
