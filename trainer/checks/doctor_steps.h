// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "backend/device/context.h"
#include "model/transformer_config.h"

namespace ventris {

/// The model of a preset (trainer/train_options.h) with a small vocabulary.
TransformerConfig model_of_steps(const std::string& preset);

/// Trains the model for two steps with one micro-batch of a few hundred tokens, on the device in f32 and in
/// bf16 and on `threads` threads of the CPU in f32, and compares. Returns a predicate, "computes wrongly:
/// ...", for each wrong precision, or one for an error, such as a lack of memory; empty if all agree.
/// Tolerances: the loss per token, relative, 0.001 in f32 and 0.02 in bf16; the gradients of each tensor, as
/// the root mean square of the difference over that of the tensor, or of all gradients if that is larger,
/// 0.01 and 0.3. The second loss shows the update.
std::vector<std::string> faults_of_steps(const ContextOptions& device, int threads,
                                         const TransformerConfig& model);

}  // namespace ventris
