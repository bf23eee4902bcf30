// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "backend/dropout.h"
#include "model/dropout_places.h"
#include "model/transformer_config.h"

namespace ventris {

/// LayerDrop (Fan, Grave and Joulin 2020, "Reducing Transformer Depth on Demand with Structured Dropout",
/// section 3.1), as in fairseq: in training each layer is left out with the rate of its stack, its output is
/// then its input, and nothing is scaled; inference uses all layers. The layers of a micro-batch are drawn
/// together: the draw is element (0, 0) of the mask at DropoutSite::kLayer whose position is that of the
/// first target row, a pure function of the seed, the step and the place of the micro-batch in the global
/// batch. All may be left out.
bool drops_layer(const TransformerConfig& config, Stack stack, int layer, uint64_t seed,
                 const DropoutPosition& first_target_row);

/// Whether layers may be left out, so that the work of a step is not that of another.
inline bool has_layer_drop(const TransformerConfig& config) {
  return config.encoder_layerdrop > 0.0F || config.decoder_layerdrop > 0.0F;
}

/// The number of layers of each stack that a micro-batch passes.
struct PassedLayers {
  int encoder;
  int decoder;
};
PassedLayers passed_layers(const TransformerConfig& config, uint64_t seed,
                           const DropoutPosition& first_target_row);
/// In inference.
inline PassedLayers all_layers(const TransformerConfig& config) {
  return {config.encoder_layers, config.decoder_layers};
}

}  // namespace ventris
