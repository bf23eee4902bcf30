#include "trainer/initial_model.h"

#include "backend/error.h"
#include "trainer/files/config_json.h"

namespace ventris {

std::unique_ptr<LoadedModel> load_initial_model(const TrainOptions& options, const data::Corpus& corpus) {
  Context host(ContextOptions{.threads = 1});
  auto model = load_model(host, options.initial_model, DType::kF32);
  // Settings that change neither shape nor meaning of a parameter are those of the run.
  TransformerConfig theirs = model->config;
  theirs.dropout = options.model.dropout;
  theirs.attention_dropout = options.model.attention_dropout;
  theirs.label_smoothing = options.model.label_smoothing;
  if (!theirs.learned_positions) theirs.max_positions = options.model.max_positions;
  if (theirs != options.model) {
    fail(ExitCode::kBadConfiguration, "{} has another model than this run: {}. Give the options of its model",
         model->path, differences(theirs, options.model));
  }
  if (model->tokenizer->model() != corpus.tokenizer().model()) {
    fail(ExitCode::kBadConfiguration,
         "{} has other tokens than {}; prepare the corpus with its tokenizer (--tokenizer-model)",
         model->path, corpus.path());
  }
  return model;
}

}  // namespace ventris
