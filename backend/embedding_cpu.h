#pragma once

#include "backend/embedding.h"

namespace ventris {

void embedding_forward_cpu(Context& context, const EmbeddingForwardArgs& args);
void embedding_backward_cpu(Context& context, const EmbeddingBackwardArgs& args);

}  // namespace ventris
