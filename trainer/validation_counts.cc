// SPDX-License-Identifier: Apache-2.0
#include "trainer/validation_counts.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "data/scores/significance.h"
#include "trainer/schedule_options.h"
#include "trainer/text.h"

namespace ventris {

bool are_better(const std::string& valid_metric, double metric, const TrainingState& state, int64_t best_step,
                double best) {
  return state.step > 0 && std::isfinite(metric) && (best_step == 0 || is_better(valid_metric, metric, best));
}

namespace {

bool are_of_the_same_sentences(const std::vector<data::Statistics>& a,
                               const std::vector<data::Statistics>& b) {
  return std::ranges::equal(a, b, [](const data::Statistics& one, const data::Statistics& other) {
    return one.columns == other.columns && one.values.size() == other.values.size();
  });
}

/// Empty if they are not of the same sentences, or there are none.
std::optional<double> p_value_of(const TrainOptions& options, const ValidationScorer& scorer,
                                 const Measured& measured, const std::vector<data::Statistics>& best) {
  const auto kind = sentence_metric(options);
  if (!kind || best.empty() || !are_of_the_same_sentences(measured.sentences, best)) return std::nullopt;
  std::vector<std::array<data::Statistics, 2>> systems;
  for (size_t set = 0; set < best.size(); ++set) systems.push_back({best[set], measured.sentences[set]});
  std::vector<data::WeightedSet> sets;
  for (size_t set = 0; set < best.size(); ++set)
    sets.push_back({.weight = measured.weights[set], .systems = systems[set]});
  return data::paired_bootstrap_p_value(scorer.metric(*kind), sets, kValidResamples, kValidSeed);
}

bool is_significant(const std::optional<double>& p_value) {
  return !p_value || *p_value < kSignificance;
}

}  // namespace

bool take_best(const TrainOptions& options, const ValidationScorer& scorer, Measured& measured,
               TrainingState& state, Progress& progress) {
  const bool by_sentences = options.best == kSignificantBest;
  if (by_sentences && state.best_step > 0) {
    measured.p_value = p_value_of(options, scorer, measured, state.best_sentences);
    if (!measured.p_value) {
      progress.warning(fmt::format(
          "--best significant: the scores of the sentences of the best model so far, of step {}, are not known "
          "or are of other sentences, so a better {} is enough this time",
          state.best_step, options.valid_metric));
    }
  }
  if (!are_better(options.valid_metric, measured.metric, state, state.best_step, state.best_metric) ||
      !is_significant(measured.p_value))
    return false;
  state.best_metric = measured.metric;
  state.best_step = state.step;
  if (by_sentences) {
    state.best_sentences = measured.sentences;
  } else {
    state.best_sentences.clear();
  }
  return true;
}

void count_validation(const TrainOptions& options, const ValidationScorer& scorer, const Measured& measured,
                      TrainingState& state) {
  // Then these are the parameters of the stage before.
  const bool begins_stage = state.position.mix.stage > 0 && state.position.mix.steps == 0;
  const bool by_sentences = options.best == kSignificantBest;
  const auto p_value = by_sentences && state.best_due_step > 0
                           ? p_value_of(options, scorer, measured, state.best_due_sentences)
                           : std::nullopt;
  if (are_better(options.valid_metric, measured.metric, state, state.best_due_step, state.best_due_metric) &&
      is_significant(p_value)) {
    state.best_due_metric = measured.metric;
    state.best_due_step = state.step;
    if (by_sentences) {
      state.best_due_sentences = measured.sentences;
    } else {
      state.best_due_sentences.clear();
    }
    state.validations_without_improvement = 0;
  } else if (state.step > 0 && !begins_stage) {
    ++state.validations_without_improvement;
  }
}

void count_for_plateau(const TrainOptions& options, double metric, TrainingState& state, MetricsLog* metrics,
                       Progress& progress) {
  const ScheduleOptions& schedule = options.schedule;
  if (schedule.kind != ScheduleKind::kPlateau || state.step <= options.warmup_steps) return;
  const bool more_is_better = is_better(options.valid_metric, 1.0, 0.0);
  const double threshold = more_is_better ? schedule.plateau_threshold : -schedule.plateau_threshold;
  if (are_better(options.valid_metric, metric, state, state.plateau_best_step,
                 state.plateau_best * (1.0 + threshold))) {
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

}  // namespace ventris
