// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>

#include "tests/support/tiny_model.h"

namespace ventris::testing {

/// NaN, but 0 where a step adds to the gradients, and in the gaps between tensors.
inline void spoil_gradients(TinyModel& tiny) {
  tiny.change_gradients([&](Tensor flat) {
    auto* const values = flat.as<float>();
    const ParameterStore& store = tiny.store();
    for (const LogicalParameter& parameter : store.logical()) {
      const Tensor gradient = store.gradient(parameter.tensor);
      std::fill_n(values + store.gradient_begin(parameter.tensor), gradient.size(), NAN);
    }
    for (const LogicalParameter& parameter : store.logical()) {
      if (!parameter.frozen || !store.gradient(parameter.tensor)) continue;
      const Tensor gradient = store.gradient(parameter.tensor);
      float* const first = values + store.gradient_begin(parameter.tensor) + parameter.col_begin;
      for (int64_t row = 0; row < gradient.rows; ++row)
        std::fill_n(first + row * gradient.cols, parameter.cols, 0.0F);
    }
    for (const FlatRange& range : tiny.model().gradients_to_clear())
      std::fill_n(values + range.begin, range.count, 0.0F);
  });
}

}  // namespace ventris::testing
