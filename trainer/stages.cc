// SPDX-License-Identifier: Apache-2.0
#include "trainer/stages.h"

#include <fmt/core.h>

#include <iterator>
#include <string>
#include <vector>

#include "backend/device/error.h"
#include "trainer/checkpoint/mix_state.h"
#include "trainer/checkpoint/resume_signature.h"
#include "trainer/validation/validation_sets.h"

namespace ventris {
namespace {

std::string stage_line(const data::MixPlan& plan, int64_t stage) {
  if (stage >= std::ssize(plan.stages)) return "none";
  std::string line = data::to_text({{plan.stages[static_cast<size_t>(stage)]}});
  line.pop_back();
  return "'" + line + "'";
}

/// The first stage up to number `stage` that `ours` does not have with the name and the shares of `theirs`;
/// -1 if there is none.
int64_t first_other_stage(const data::MixPlan& ours, const data::MixPlan& theirs, int64_t stage) {
  for (int64_t i = 0; i <= stage && i < std::ssize(theirs.stages); ++i) {
    if (i >= std::ssize(ours.stages)) return i;
    const data::MixStage& mine = ours.stages[static_cast<size_t>(i)];
    const data::MixStage& other = theirs.stages[static_cast<size_t>(i)];
    if (mine.name != other.name || mine.shares != other.shares) return i;
  }
  return -1;
}

/// `stage` becomes that in which the run is.
data::MixPlan plan_of_resumed_run(const TrainOptions& options, const ResumePoint& from, int64_t& stage) {
  if (from.mix.empty()) {
    if (!options.mix.empty()) refuse_other_option(from.path, "--mix", "none", "one");
    return {};
  }
  MixState recorded;
  data::MixPosition position;
  read_mix_json(from.mix, from.path, recorded, position);
  stage = position.stage;
  data::MixPlan theirs = data::parse_mix_plan(recorded.plan, from.path);
  if (options.mix.empty()) return theirs;
  data::MixPlan ours = data::parse_mix_plan(options.mix, "--mix");
  const int64_t other = first_other_stage(ours, theirs, stage);
  if (other >= 0) {
    fail(ExitCode::kBadConfiguration,
         "{} is in stage {} of its plan, whose stage {} is {}; in that of --mix it is {}. What ends a stage "
         "and later stages may change, but not the corpora of these; without --mix the recorded plan "
         "continues",
         from.path, stage + 1, other + 1, stage_line(theirs, other), stage_line(ours, other));
  }
  return ours;
}

/// Of the stages from number `first`: those before it have ended.
void check_ends(const data::MixPlan& plan, int64_t first, const TrainOptions& options,
                const data::Corpus& corpus) {
  for (int64_t i = first; i < std::ssize(plan.stages); ++i) {
    const data::MixStage& stage = plan.stages[static_cast<size_t>(i)];
    if (stage.end.kind != data::StageEnd::Kind::kStalled) continue;
    if (options.valid_every == 0 || !has_validation_pairs(corpus)) {
      fail(ExitCode::kBadConfiguration, "--mix: stage {} lasts {}, but the run has no validations: {}",
           stage.name, data::to_text(stage.end),
           options.valid_every == 0
               ? "--valid-every is 0"
               : options.corpus + " has no validation pairs; 'ventris prepare --valid-sets' adds them");
    }
    if (options.patience > 0 && stage.end.count > options.patience) {
      fail(ExitCode::kBadConfiguration,
           "--mix: stage {} lasts {}, but --patience {} ends training before; give at least {}, or 0",
           stage.name, data::to_text(stage.end), options.patience, stage.end.count);
    }
  }
}

}  // namespace

data::MixPlan resolved_mix(const TrainOptions& options, const ResumePoint& from, const data::Corpus& corpus) {
  data::MixPlan plan;
  int64_t stage = 0;
  if (!from.path.empty()) {
    plan = plan_of_resumed_run(options, from, stage);
  } else if (!options.mix.empty()) {
    plan = data::parse_mix_plan(options.mix, "--mix");
  }
  data::check_corpora(plan, corpus.parts(), options.corpus);
  check_ends(plan, stage, options, corpus);
  return plan;
}

bool stage_has_stalled(const data::BatchSource& batches, const TrainingState& state) {
  if (batches.mix().empty() || batches.ended(state.position)) return false;
  const data::StageEnd& end = batches.mix().stages[static_cast<size_t>(state.position.mix.stage)].end;
  return end.kind == data::StageEnd::Kind::kStalled && state.validations_without_improvement >= end.count;
}

StageChange record_stage_end(const data::BatchSource& batches, int64_t stage, TrainingState& state) {
  const std::vector<data::MixStage>& stages = batches.mix().stages;
  const data::MixStage& ended = stages[static_cast<size_t>(stage)];
  state.mix.ended.push_back({ended.name, state.step});
  state.validations_without_improvement = 0;
  return {.step = state.step,
          .name = ended.name,
          .end = data::to_text(ended.end),
          .next = batches.ended(state.position) ? "" : stages[static_cast<size_t>(stage) + 1].name};
}

}  // namespace ventris
