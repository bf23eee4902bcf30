#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "trainer/train_options.h"

namespace ventris {

class Communicator;
class Context;
class Progress;

/// Says what is about to be trained, as a table, and what is probably not meant. Called on all ranks.
/// `options` are resolved; `first_step` is the one that the run begins after.
void report_start(Progress& progress, Communicator& communicator, Context& context,
                  const TrainOptions& options, const data::Corpus& corpus, int64_t parameters,
                  int64_t first_step);

/// Warns of options that are not what config.json in the run folder, of the last start there, says.
void warn_of_changed_options(Progress& progress, const TrainOptions& options);

/// "--max-steps from 100 to 200": each option that differs, as the user writes it, in the order of names.
/// Where the run is kept and where it goes on from do not count.
std::vector<std::string> changed_options(const TrainOptions& before, const TrainOptions& now);

}  // namespace ventris
