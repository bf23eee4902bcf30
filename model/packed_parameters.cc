// SPDX-License-Identifier: Apache-2.0
#include "model/packed_parameters.h"

#include <vector>

namespace ventris {
namespace {

/// The weights of all Linear layers.
std::vector<ParameterId> weights_of(const TransformerIds& ids) {
  std::vector<ParameterId> weights = {ids.memory_key_value.weight};
  const auto add = [&](const auto&... linear) { (weights.push_back(linear.weight), ...); };
  for (const EncoderLayerIds& layer : ids.encoder) {
    add(layer.self_attention.query_key_value, layer.self_attention.output, layer.feed_forward.inner,
        layer.feed_forward.outer);
  }
  for (const DecoderLayerIds& layer : ids.decoder) {
    add(layer.self_attention.query_key_value, layer.self_attention.output, layer.cross_attention.query,
        layer.cross_attention.output, layer.feed_forward.inner, layer.feed_forward.outer);
  }
  return weights;
}

}  // namespace

bool can_pack(const Context& context, const ParameterStore& store) {
  return context.device() == Device::kCpu && store.dtype() != DType::kF64;
}

void pack_parameters(Context& context, const TransformerIds& ids, ParameterStore& store, Packing packing) {
  store = store.packed_copy(context, packing, weights_of(ids), ids.tables(), &store);
}

ParameterStore packed_copy(Context& context, const TransformerIds& ids, const ParameterStore& store,
                           Packing packing) {
  return store.packed_copy(context, packing, weights_of(ids), ids.tables(), nullptr);
}

}  // namespace ventris
