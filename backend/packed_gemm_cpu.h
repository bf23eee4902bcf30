#pragma once

#include "backend/packed_gemm.h"

namespace ventris {

void pack_cpu(Context& context, const PackArgs& args);
void packed_gemm_cpu(Context& context, const PackedGemmArgs& args);

}  // namespace ventris
