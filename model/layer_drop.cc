// SPDX-License-Identifier: Apache-2.0
#include "model/layer_drop.h"

namespace ventris {

bool drops_layer(const TransformerConfig& config, Stack stack, int layer, uint64_t seed,
                 const DropoutPosition& first_target_row) {
  const DropoutKey key = {
      .rate = stack == Stack::kEncoder ? config.encoder_layerdrop : config.decoder_layerdrop,
      .seed = seed,
      .place = dropout_place(stack, layer, DropoutSite::kLayer),
      .position = &first_target_row};
  return key.active() && dropout_bits(key, 0, 0)[0] < key.threshold();
}

PassedLayers passed_layers(const TransformerConfig& config, uint64_t seed,
                           const DropoutPosition& first_target_row) {
  const auto passed = [&](Stack stack, int layers) {
    int count = 0;
    for (int i = 0; i < layers; ++i) count += drops_layer(config, stack, i, seed, first_target_row) ? 0 : 1;
    return count;
  };
  return {passed(Stack::kEncoder, config.encoder_layers), passed(Stack::kDecoder, config.decoder_layers)};
}

}  // namespace ventris
