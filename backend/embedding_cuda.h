#pragma once

#include "backend/embedding.h"

namespace ventris {

void embedding_forward_cuda(Context& context, const EmbeddingForwardArgs& args);
void embedding_backward_cuda(Context& context, const EmbeddingBackwardArgs& args);

}  // namespace ventris
