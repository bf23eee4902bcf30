#include "trainer/stages.h"

#include <iterator>
#include <string>

#include "backend/error.h"
#include "trainer/files/mix_state.h"
#include "trainer/resume_signature.h"

namespace ventris {
namespace {

std::string line_of(const data::MixPlan& plan, int64_t stage) {
  if (stage >= std::ssize(plan.stages)) return "none";
  std::string line = data::to_text({{plan.stages[static_cast<size_t>(stage)]}});
  line.pop_back();
  return "'" + line + "'";
}

/// Whether a run that is in stage `stage` of `theirs` may go on with `ours`; if not, `differs` is the stage.
bool may_follow(const data::MixPlan& ours, const data::MixPlan& theirs, int64_t stage, int64_t& differs) {
  for (differs = 0; differs <= stage && differs < std::ssize(theirs.stages); ++differs) {
    if (differs >= std::ssize(ours.stages)) return false;
    const data::MixStage& mine = ours.stages[static_cast<size_t>(differs)];
    const data::MixStage& other = theirs.stages[static_cast<size_t>(differs)];
    const bool has_ended = differs < stage;
    if (mine.name != other.name || mine.shares != other.shares || (has_ended && mine.end != other.end))
      return false;
  }
  return true;
}

data::MixPlan plan_of_resumed_run(const TrainOptions& options, const ResumePoint& from) {
  if (from.mix.empty()) {
    if (!options.mix.empty()) refuse_other_option(from.path, "--mix", "none", "one");
    return {};
  }
  MixState recorded;
  data::MixPosition position;
  read_mix_json(from.mix, from.path, recorded, position);
  data::MixPlan theirs = data::parse_mix_plan(recorded.plan, from.path);
  if (options.mix.empty()) return theirs;
  data::MixPlan ours = data::parse_mix_plan(options.mix, "--mix");
  int64_t differs = 0;
  if (!may_follow(ours, theirs, position.stage, differs)) {
    fail(ExitCode::kBadConfiguration,
         "{} is in stage {} of its plan, and its stage {} is {}, but in the plan of --mix {}. Only later "
         "stages may change, and what ends the present one; without --mix the recorded plan continues",
         from.path, position.stage + 1, differs + 1, line_of(theirs, differs), line_of(ours, differs));
  }
  return ours;
}

void check_ends(const data::MixPlan& plan, const TrainOptions& options, const data::Corpus& corpus) {
  for (const data::MixStage& stage : plan.stages) {
    if (stage.end.kind != data::StageEnd::Kind::kStalled) continue;
    if (options.valid_every == 0 || corpus.valid().size() == 0) {
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
  if (!from.path.empty()) {
    plan = plan_of_resumed_run(options, from);
  } else if (!options.mix.empty()) {
    plan = data::parse_mix_plan(options.mix, "--mix");
  }
  data::check_corpora(plan, corpus.parts(), options.corpus);
  check_ends(plan, options, corpus);
  return plan;
}

}  // namespace ventris
