// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/ops/attention.h"

namespace ventris {

template <typename T>
void attention_decode_cpu(Context& context, const AttentionDecodeArgs& args);

}  // namespace ventris
