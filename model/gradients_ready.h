// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

namespace ventris {

/// Callback during backward: the gradients of the store (ParameterStore::gradients) at or after `begin` are
/// complete for this micro-batch. Called with values that do not rise, at the end with 0.
using GradientsReady = std::function<void(int64_t begin)>;

/// Callback before that: the loss of this micro-batch is in Transformer::loss_sums(), which backward does not
/// access. Called once.
using LossReady = std::function<void()>;

}  // namespace ventris
