#pragma once

#include "backend/context.h"

namespace ventris {

/// sum = a + b element by element, or a copy of a if b is empty. The sum may alias a or b.
struct AddArgs {
  ConstTensor a;       // [1, n] f32 or f64
  ConstTensor b = {};  // [1, n] like a, or empty
  Tensor sum;          // [1, n] like a
};
void add(Context& context, const AddArgs& args);

}  // namespace ventris
