// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "model/parameters.h"
#include "trainer/train_options.h"

namespace ventris {

class ValidationSets;

class Communicator;
class Context;
class Progress;

/// Prints the settings of the training as a table, and warnings of probable mistakes. Must be called on all
/// ranks. `options` are resolved, `precision` says which one and why;
/// `first_step` is the step after which the run begins, `next_rate` the learning rate of the first one.
void report_start(Progress& progress, Communicator& communicator, Context& context,
                  const TrainOptions& options, const std::string& precision, const data::Corpus& corpus,
                  const ValidationSets& sets, const ParameterStore& store, int64_t first_step,
                  double next_rate);

/// Warns of options that differ from config.json of the last start in the run folder, and in a run that
/// resumes of those without effect on it. Returns the options to record: in a run that resumes, the ones with
/// kNewRun are those with which it began.
TrainOptions report_changed_options(Progress& progress, const TrainOptions& options, bool resumes);

/// "--max-steps from 100 to 200": each option that differs, as the user writes it, in the order of names.
/// Without those with kPlace or kNewRun.
std::vector<std::string> changed_options(const TrainOptions& before, const TrainOptions& now);

}  // namespace ventris
