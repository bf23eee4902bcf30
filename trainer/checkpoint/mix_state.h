// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/batches.h"
#include "data/mix_plan.h"

namespace ventris {

/// Of "/" in a checkpoint of a run with a plan.
inline constexpr const char* kMixAttribute = "mix";

/// A stage of a plan (`train --mix`) that a run has ended.
struct EndedStage {
  std::string stage;
  int64_t step = 0;  // its last
  bool operator==(const EndedStage&) const = default;
};

/// The plan of a run and its stages so far; the position in it is data::MixPosition.
struct MixState {
  std::string plan;               // data::to_text(); "" without a plan
  std::vector<EndedStage> ended;  // in the order of the plan
  bool operator==(const MixState&) const = default;
};

/// Both as one JSON object, for kMixAttribute; "" without a plan.
std::string mix_json(const MixState& mix, const data::MixPosition& position);

/// Reads the result of mix_json(). Throws Error(kBadData) naming `origin` for what training cannot produce.
void read_mix_json(const std::string& json, const std::string& origin, MixState& mix,
                   data::MixPosition& position);

/// The plan of a run with the ends that its stages had: a pure function of the position, whatever ended them.
/// A stage that has not ended and would by validation is the last, without an end.
data::MixPlan plan_as_it_was(const MixState& mix);

}  // namespace ventris
