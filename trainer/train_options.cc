// SPDX-License-Identifier: Apache-2.0
#include "trainer/train_options.h"

#include <fmt/ranges.h>

#include "backend/device/error.h"
#include "trainer/checkpoint/save_timeout.h"
#include "trainer/options/train_rows.h"
#include "trainer/schedule_options.h"

namespace ventris {
namespace {

void set_shape(TransformerConfig& model, int layers, int d_model, int d_ff, int heads, float dropout) {
  model.encoder_layers = layers;
  model.decoder_layers = layers;
  model.d_model = d_model;
  model.d_ff = d_ff;
  model.heads = heads;
  model.dropout = dropout;
}

}  // namespace

const char* name_of(Reduction reduction) {
  return reduction == Reduction::kFast ? "fast" : "reproducible";
}

const std::vector<std::string>& preset_names() {
  static const std::vector<std::string> names = {"tiny", "small", "base", "big"};
  return names;
}

TrainOptions preset_options(const std::string& name) {
  TrainOptions options;
  options.preset = name;
  if (name == "tiny") {
    set_shape(options.model, 4, 128, 256, 4, 0.3F);
    options.batch_source_tokens = options.batch_target_tokens = 4096;
    options.warmup_steps = 2000;
    options.max_steps = 20000;
    options.learning_rate_scale = 2.5;  // peak 0.005, as published for Multi30k
  } else if (name == "small") {
    set_shape(options.model, 6, 512, 1024, 4, 0.3F);
    options.batch_source_tokens = options.batch_target_tokens = 4096;
    options.max_steps = 50000;
  } else if (name == "base") {
    set_shape(options.model, 6, 512, 2048, 8, 0.1F);
  } else if (name == "big") {
    set_shape(options.model, 6, 1024, 4096, 16, 0.3F);
    options.max_steps = 300000;
    options.keep_checkpoints = 20;
  } else {
    fail(ExitCode::kBadConfiguration, "there is no preset \"{}\": the presets are {}", name,
         fmt::join(preset_names(), ", "));
  }
  return options;
}

TrainOptions checked_options(const TrainOptions& options, Device device) {
  const auto require = [](bool holds, const char* option, const std::string& value, const char* allowed) {
    if (!holds) fail(ExitCode::kBadConfiguration, "{} is {}; it must be {}", option, value, allowed);
  };
  require(!options.corpus.empty(), "--corpus", "empty", "a corpus file");
  require(!options.model_dir.empty(), "--model-dir", "empty", "a folder");
  try {
    TrainRows(options).table.check();
  } catch (const OptionError& error) {
    fail(ExitCode::kBadConfiguration, "{}", error.what());
  }
  require(options.reduction == Reduction::kFast || options.gradient_dtype == DType::kF32, "--gradient-dtype",
          "bf16", "f32 with --reduction reproducible, which sums in f32");
  require(!options.shard_optimizer || options.gradient_dtype == DType::kF32, "--gradient-dtype", "bf16",
          "f32 with --shard-optimizer, which sums in f32");
  const bool from_model = !options.initial_model.empty();
  require(options.initial_optimizer == "fresh" || from_model, "--init-optimizer", options.initial_optimizer,
          "fresh, or keep with --init");
  require(options.initial_vocabulary == "match" || from_model, "--init-vocabulary",
          options.initial_vocabulary, "match, or extend with --init");
  const std::vector<std::string>& embeddings = options.initial_embeddings;
  require(embeddings.empty() || !from_model, "--init-embeddings",
          fmt::format("{}", fmt::join(embeddings, " ")), "absent with --init, whose model has an embedding");
  require(embeddings.size() <= 2, "--init-embeddings", fmt::format("{} files", embeddings.size()),
          "one file, or those of sources and targets");
  const bool of_sentences = options.valid_metric == "bleu" || options.valid_metric == "chrf";
  require(options.translates_validation() || !of_sentences, "--valid-beam-size", "0",
          "positive with --valid-metric bleu or chrf, which are of translations");
  require(options.translates_validation() || options.valid_script.empty(), "--valid-beam-size", "0",
          "positive with --valid-script, which scores translations");
  require(options.valid_every > 0 || options.valid_script.empty(), "--valid-every", "0",
          "positive with --valid-script");
  check_schedule(options);
  static_cast<void>(resolved_precision(options.precision, Precision::kAuto, device));
  static_cast<void>(save_timeout());
  return options;
}

}  // namespace ventris
