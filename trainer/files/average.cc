// SPDX-License-Identifier: Apache-2.0
#include "trainer/files/average.h"

#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "backend/context.h"
#include "backend/error.h"
#include "data/files/hdf5_reader.h"
#include "data/text/tokenizer.h"
#include "model/transformer_parameters.h"
#include "trainer/files/model_files.h"
#include "trainer/files/run_folder.h"
#include "trainer/files/safetensors_model.h"
#include "trainer/files/weights.h"

namespace ventris {
namespace {

/// A model to average, from a file: of a checkpoint the parameters, not their moving average.
struct AveragedModel {
  TransformerConfig config;
  data::TokenizerModels tokenizers;
  std::unique_ptr<LoadedModel> loaded;       // of a safetensors file, or
  std::unique_ptr<data::Hdf5Reader> reader;  // of a file whose parameters are not read yet

  AveragedModel(Context& context, const std::string& path) {
    if (is_safetensors(path)) {
      loaded = load_model(context, path, DType::kF32);
      config = loaded->config;
      tokenizers = loaded->tokenizers->models();
    } else {
      reader = std::make_unique<data::Hdf5Reader>(path);
      config = read_config(*reader);
      tokenizers = read_tokenizer_models(*reader);
    }
  }

  /// Its parameters, in `store` or of its own.
  const float* values(Context& context, ParameterStore& store) const {
    if (loaded) return loaded->store.values().as<float>();
    read_model(context, *reader, store);
    return store.values().as<float>();
  }
};

void check_same_tokenizers(const AveragedModel& model, const std::string& path,
                           const data::TokenizerModels& tokenizers, const std::string& first_path) {
  if (model.tokenizers == tokenizers) return;
  const std::string difference = vocabulary_difference(data::TokenizerPair(tokenizers, first_path),
                                                       data::TokenizerPair(model.tokenizers, path));
  fail(ExitCode::kBadData, "{}: has another tokenizer than {}, so their parameters cannot be averaged: {}",
       path, first_path,
       difference.empty() ? "the tokens are the same, but text is tokenized differently" : difference);
}

}  // namespace

void average_checkpoints(const std::vector<std::string>& paths, const std::string& output,
                         const std::string& provenance) {
  if (paths.empty()) fail(ExitCode::kUsage, "there are no checkpoints to average");
  check_is_no_file_of_a_run(output);
  Context cpu(ContextOptions{});
  TransformerConfig config;
  data::TokenizerModels tokenizers;
  ParameterStore store;
  std::vector<double> sums;
  for (const std::string& path : paths) {
    const AveragedModel model(cpu, path);
    if (sums.empty()) {
      config = model.config;
      tokenizers = model.tokenizers;
      declare_transformer(config, store);
      store.allocate(cpu.device(), DType::kF32, /*gradients=*/false);
      sums.assign(static_cast<size_t>(store.flat_size()), 0.0);
    }
    check_same_tokenizers(model, path, tokenizers, paths.front());
    check_same_network(model.config, config, path);
    const float* values = model.values(cpu, store);
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<double>(values[i]);
  }
  float* values = store.values().as<float>();
  const double count = static_cast<double>(paths.size());
  for (size_t i = 0; i < sums.size(); ++i) values[i] = static_cast<float>(sums[i] / count);
  save_weights(cpu, output, config, store, tokenizers, provenance, /*probes=*/"", std::ssize(paths));
}

}  // namespace ventris
