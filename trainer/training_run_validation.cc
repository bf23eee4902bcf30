// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <utility>

#include "trainer/observers/validation_script.h"
#include "trainer/schedule_options.h"
#include "trainer/stages.h"
#include "trainer/text.h"
#include "trainer/training_run.h"
#include "trainer/validation/valid_outputs.h"

namespace ventris {
namespace {

/// Of each set, with the lines that were translated, so that the folder alone tells of them.
void keep_outputs(const std::string& model_dir, int64_t step, const ValidationSets& sets,
                  const std::vector<std::vector<std::string>>& translations) {
  for (size_t i = 0; i < translations.size(); ++i) {
    const ValidationSet& set = sets.all()[i];
    write_valid_output(model_dir, step, set.name, translations[i]);
    const auto write = [&](ValidSide side, const auto& line_of) {
      std::vector<std::string> lines;
      for (int64_t pair = 0; pair < std::ssize(translations[i]); ++pair) lines.push_back(line_of(pair));
      write_valid_text(model_dir, set.name, side, lines);
    };
    write(ValidSide::kReference, set.reference);
    write(ValidSide::kSource, set.source);
  }
}

/// Whether the parameters of the state are better than the best so far, of best_step (0: none). At step 0
/// they are those of --init.
bool are_better(const std::string& valid_metric, double metric, const TrainingState& state, int64_t best_step,
                double best) {
  return state.step > 0 && std::isfinite(metric) && (best_step == 0 || is_better(valid_metric, metric, best));
}

/// Whether they become the best of the run; then the state records them.
bool take_best(const TrainOptions& options, double metric, TrainingState& state) {
  if (!are_better(options.valid_metric, metric, state, state.best_step, state.best_metric)) return false;
  state.best_metric = metric;
  state.best_step = state.step;
  return true;
}

/// Counts a validation that was due for --patience and `until stalled`, by the same rule.
void count_validation(const TrainOptions& options, double metric, TrainingState& state) {
  // Then these are the parameters of the stage before.
  const bool begins_stage = state.position.mix.stage > 0 && state.position.mix.steps == 0;
  if (are_better(options.valid_metric, metric, state, state.best_due_step, state.best_due_metric)) {
    state.best_due_metric = metric;
    state.best_due_step = state.step;
    state.validations_without_improvement = 0;
  } else if (state.step > 0 && !begins_stage) {
    ++state.validations_without_improvement;
  }
}

/// Counts a validation for --schedule plateau, as torch.optim.lr_scheduler.ReduceLROnPlateau does: the
/// rate drops by plateau_factor after plateau_patience validations in a row that are not better than the
/// best. Validations until the end of the warm-up do not count. Writes a drop to the log (may be null) and
/// reports it.
void count_for_plateau(const TrainOptions& options, double metric, TrainingState& state, MetricsLog* metrics,
                       Progress& progress) {
  const ScheduleOptions& schedule = options.schedule;
  if (schedule.kind != ScheduleKind::kPlateau || state.step <= options.warmup_steps) return;
  if (are_better(options.valid_metric, metric, state, state.plateau_best_step, state.plateau_best)) {
    state.plateau_best = metric;
    state.plateau_best_step = state.step;
    state.plateau_validations = 0;
    return;
  }
  if (++state.plateau_validations < schedule.plateau_patience) return;
  state.plateau_validations = 0;
  const Schedule course = schedule_of(options);
  const double before = course.learning_rate(state.step, state.plateau_factor);
  const double factor = state.plateau_factor * schedule.plateau_factor;
  const double after = course.learning_rate(state.step, factor);
  if (after == before) return;
  state.plateau_factor = factor;
  if (metrics != nullptr) metrics->write_plateau(state.step, factor);
  progress.message(
      fmt::format("the learning rate drops from {:.4g} to {:.4g} after step {}: {} without a better one",
                  before, after, state.step, counted(schedule.plateau_patience, "validation")));
}

}  // namespace

bool TrainingRun::validation_is_pending() const {
  // A run that begins with another's parameters starts with their scores.
  const bool is_due = state_.validation_pending != 0 ||
                      (state_.step == 0 && !options_.initial_model.empty() && validated_step_ < 0);
  return validation_ && options_.valid_every > 0 && is_due && !stop_;
}

bool TrainingRun::validation_is_due() const {
  return validation_ && options_.valid_every > 0 && state_.step % options_.valid_every == 0;
}

/// Adds the signatures of the scores, if they were not logged before or are others now.
void TrainingRun::sign(ValidationMetrics& metrics) {
  const ValidationScorer& scorer = validation_->scorer();
  const std::string bleu = metrics.has_bleu ? scorer.signature(data::MetricKind::kBleu) : "";
  const std::string chrf = metrics.has_chrf ? scorer.signature(data::MetricKind::kChrf) : "";
  const std::string both = bleu + (bleu.empty() || chrf.empty() ? "" : " ") + chrf;
  if (both == state_.valid_signature) return;
  state_.valid_signature = both;
  for (const auto& [name, signature] : {std::pair("BLEU", bleu), std::pair("chrF", chrf)})
    if (!signature.empty()) progress_.message(fmt::format("{} of validations: {}", name, signature));
  metrics.signature = bleu;
  metrics.chrf_signature = chrf;
}

void TrainingRun::exchange_with_average() {
  if (!optimizer_->has_average()) return;
  optimizer_->exchange_with_average();
  step_->share_masters();
  store_.refresh_compute_copy(context_);
}

void TrainingRun::validate() {
  const Clock::time_point begin = Clock::now();
  complete_masters();  // a search reads them
  exchange_with_average();
  auto measured = validation_->run(*transformer_, store_, ids_, state_.step,
                                   [this] { progress_.goes_on(state_.step, "validating"); });
  exchange_with_average();
  validated_step_ = state_.step;
  const bool was_pending = state_.validation_pending != 0;
  state_.validation_pending = measured ? 0 : 1;
  if (!measured) {
    stop_ = true;
    progress_.message(fmt::format(
        "validation at step {} is abandoned because of the stop; the next start repeats it", state_.step));
    return;
  }
  ValidationMetrics& metrics = measured->metrics;
  const double metric = metrics.of(options_.valid_metric);
  // Others, where a start ended, must not change what a later start does.
  const bool is_due = validation_is_due();
  if (is_due) count_validation(options_, metric, state_);
  const bool better = take_best(options_, metric, state_);
  sign(metrics);
  if (metrics_ && options_.keeps_translations())
    keep_outputs(options_.model_dir, state_.step, valid_sets_, measured->translations);
  if (metrics_) metrics_->write(metrics);
  if (script_) script_->start(state_.step, valid_sets_);
  progress_.validation(metrics, better, std::chrono::duration<double>(Clock::now() - begin).count());
  if (is_due) count_for_plateau(options_, metric, state_, metrics_ ? &*metrics_ : nullptr, progress_);
  if (is_due && stage_has_stalled(batches_, state_)) {
    const int64_t stage = state_.position.mix.stage;
    state_.position = batches_.after_stage(state_.position);
    record_stage_end(batches_, stage, state_, metrics_ ? &*metrics_ : nullptr, progress_);
    feed_->restart({state_.position, state_.step + 1});
  }
  if (better) {
    save(CheckpointSaver::Best{
        .metric = options_.valid_metric, .value = metric, .signature = signature_of_metric(options_)});
  } else if (was_pending) {
    save();  // the checkpoint of this step says that its validation is pending
  }
}

}  // namespace ventris
