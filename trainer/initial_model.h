#pragma once

#include <memory>

#include "data/corpus.h"
#include "trainer/files/weights.h"
#include "trainer/train_options.h"

namespace ventris {

/// Reads options.initial_model, in f32 on the host. Errors: those of load_model(); Error(kBadConfiguration)
/// if its shape is not that of the run, whose model is complete, or its tokens are not those of the corpus.
std::unique_ptr<LoadedModel> load_initial_model(const TrainOptions& options, const data::Corpus& corpus);

}  // namespace ventris
