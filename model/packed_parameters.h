// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/device/context.h"
#include "model/parameters.h"
#include "model/transformer_parameters.h"

namespace ventris {

/// Whether the weights of a model can be packed for inference (backend/ops/packed_gemm.h): on the CPU, in f32
/// or bf16.
bool can_pack(const Context& context, const ParameterStore& store);

/// Packs all weights that are multiplied and frees their memory: the store then holds a model for inference.
/// Earlier views of its values and models on it are invalid. Requires can_pack() and a packing whose
/// factor_dtype() is the store's: that of its dtype, or int8 for f32.
void pack_parameters(Context& context, const TransformerIds& ids, ParameterStore& store, Packing packing);

/// A packed store with the present values of `store`. Requires the same.
ParameterStore packed_copy(Context& context, const TransformerIds& ids, const ParameterStore& store,
                           Packing packing);

}  // namespace ventris
