// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "backend/device/context.h"

namespace ventris {

/// A step of a sum in a stated order.
struct AddStep {
  Tensor term;    // [1, n] f32 or f64: becomes the newest partial sum; may be overwritten
  int additions;  // how often the two newest partial sums then become one, older + newer
  Tensor sum =
      {};  // [1, n] like the term: the place of the only partial sum, which is then complete; or empty
};

/// Sums of terms element by element, in the order of the steps, one complete sum after the other; that of one
/// term is a copy. A sum may take the place of a term of its own step or an earlier one.
struct AddArgs {
  std::vector<AddStep> steps;  // at least one
};
void add(Context& context, const AddArgs& args);

/// Partial sums that may be incomplete at a time: those of a tree of 2^32 terms.
inline constexpr int kMaxPartialSums = 33;

}  // namespace ventris
