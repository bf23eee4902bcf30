#pragma once

#include "backend/context.h"
#include "model/parameters.h"
#include "model/transformer_parameters.h"

namespace ventris {

/// Whether the weights of a model can be packed for inference (backend/packed_gemm.h): on the CPU, in f32 or
/// bf16.
bool can_pack(const Context& context, const ParameterStore& store);

/// Packs all weights that are multiplied, and gives back the memory that they had: the store holds a model
/// for inference from then on. Views of its values and models made before are void. Requires can_pack() and
/// a packing whose factor_dtype() is the store's: that of its dtype, or int8 for f32.
void pack_parameters(Context& context, const TransformerIds& ids, ParameterStore& store, Packing packing);

/// A packed store with the present values of `store`. Requires the same.
ParameterStore packed_copy(Context& context, const TransformerIds& ids, const ParameterStore& store,
                           Packing packing);

}  // namespace ventris
