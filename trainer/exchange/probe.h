// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/checkpoint/weights.h"

namespace ventris {

/// A sentence pair with the model's output in f32 when forced to the target. It is part of an exported model,
/// so that a program that loads it can verify its results.
struct Probe {
  std::vector<int32_t> source;           // tokens without marks
  std::vector<int32_t> target;           // tokens without marks
  std::vector<float> log_probabilities;  // [target + 1]: of each target token, then of the end mark
  std::vector<int32_t> top_tokens;       // [target + 1, kTopTokens]: best first
  std::vector<float> top_logits;         // [target + 1, kTopTokens]

  static constexpr int kTopTokens = 4;
  bool operator==(const Probe&) const = default;
};

/// Probes of fixed pseudo-random sources; the target is the model's own greedy translation, cut to a few
/// tokens.
std::vector<Probe> make_probes(Context& context, LoadedModel& model);

/// One JSON object, {"probes": [...]}; docs/formats.md has the keys.
std::string to_json(const std::vector<Probe>& probes);
/// Throws Error(kBadData) naming `origin` for text of another form.
std::vector<Probe> probes_from_json(const std::string& text, const std::string& origin);

/// The largest difference between expected and computed logits and log-probabilities. The model is in f32.
/// Throws Error(kBadData), naming the probe and position, if it exceeds `tolerance` (relative to the expected
/// value if that is above 1), or a token is not in the vocabulary.
double check_probes(Context& context, LoadedModel& model, const std::vector<Probe>& probes, double tolerance);

}  // namespace ventris
