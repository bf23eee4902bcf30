// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/ops/attention.h"

namespace ventris {

template <typename T>
void attention_backward_cpu(Context& context, const AttentionBackwardArgs& args);

}  // namespace ventris
