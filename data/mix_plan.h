// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ventris::data {

struct CorpusPart;

/// Bytes of a plan at most.
inline constexpr size_t kMaxMixBytes = 16384;

/// The share of a corpus in the pairs of a stage, relative to those of the others.
struct MixShare {
  std::string corpus;
  double share = 0.0;
  bool operator==(const MixShare&) const = default;
};

/// What ends a stage, always between two steps.
struct StageEnd {
  enum class Kind {
    kNever,    // the stage lasts to the end of training
    kSteps,    // after `count` steps of the stage
    kEpochs,   // when the stage has drawn `count` times as many pairs of `corpus` as it has
    kStalled,  // after `count` validations of the stage in a row without a better result
  };
  Kind kind = Kind::kNever;
  int64_t count = 0;
  std::string corpus = {};
  bool operator==(const StageEnd&) const = default;
};

struct MixStage {
  std::string name;
  std::vector<MixShare> shares;
  StageEnd end;
  bool operator==(const MixStage&) const = default;
};

/// A plan of `train --mix`: stages of training, one after the other. Without stages: no plan, all corpora are
/// one.
struct MixPlan {
  std::vector<MixStage> stages;
  bool empty() const { return stages.empty(); }
  bool operator==(const MixPlan&) const = default;
};

/// Reads a plan in our format, one stage a line (docs/formats.md): `NAME: clean .7 bt .3 until bt 2`. Throws
/// DataError kBadConfiguration naming `origin` and the line.
MixPlan parse_mix_plan(std::string_view text, const std::string& origin);

/// The plan in that format; parse_mix_plan() of it gives the same plan.
std::string to_text(const MixPlan& plan);
/// As in a plan: "until bt 2"; "" if it never ends.
std::string to_text(const StageEnd& end);

/// Throws DataError kBadConfiguration naming `origin` and the stage or line for what no plan may be: a stage
/// without a positive share, with an end that it cannot reach or with the name of another, or a stage after
/// one without an end.
void check_mix_plan(const MixPlan& plan, const std::string& origin);

/// Throws DataError kBadConfiguration naming a corpus of the plan that the file at `path` with these parts
/// does not have, or that has no pairs.
void check_corpora(const MixPlan& plan, const std::vector<CorpusPart>& parts, const std::string& path);

}  // namespace ventris::data
