// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ventris {

/// What a model keeps of a forward pass for the backward pass: nothing, for inference; all activations; or of
/// every layer its input only, from which backward computes the others again (Chen et al. 2016, "Training
/// Deep Nets with Sublinear Memory Cost", section 4.1). The masks of dropout are functions of their keys, and
/// products of one shape always sum alike, so that the results are the same bits.
enum class KeptActivations { kNone, kAll, kLayerInputs };

}  // namespace ventris
