#pragma once

#include "backend/attention.h"

namespace ventris {

void attention_forward_cuda(Context& context, const AttentionForwardArgs& args);
void attention_backward_cuda(Context& context, const AttentionBackwardArgs& args);
void attention_decode_cuda(Context& context, const AttentionDecodeArgs& args);

}  // namespace ventris
