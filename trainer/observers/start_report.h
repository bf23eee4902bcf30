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

/// Warns of options that differ from config.json of the last start in the run folder.
void warn_of_changed_options(Progress& progress, const TrainOptions& options);

/// "--max-steps from 100 to 200": each option that differs, as the user writes it, in the order of names.
/// Without the run folder, the file of --resume, and what only a new run reads (--init and its like).
std::vector<std::string> changed_options(const TrainOptions& before, const TrainOptions& now);

}  // namespace ventris
