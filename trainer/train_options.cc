// SPDX-License-Identifier: Apache-2.0
#include "trainer/train_options.h"

#include <fmt/ranges.h>

#include <limits>
#include <utility>

#include "backend/device/error.h"
#include "trainer/checkpoint/checkpoint_saver.h"
#include "trainer/schedule_options.h"
#include "trainer/validation/validation_metric.h"

namespace ventris {
namespace {

// Of a global batch: offsets of sentences and the rows that key dropout have 32 bits.
constexpr int64_t kMaxTokens = std::numeric_limits<int32_t>::max();

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
    fail(ExitCode::kBadConfiguration, "there is no preset \"{}\": the presets are tiny, small, base and big",
         name);
  }
  return options;
}

TrainOptions checked_options(const TrainOptions& options, Device device) {
  const auto require = [](bool holds, const char* option, const std::string& value, const char* allowed) {
    if (!holds) fail(ExitCode::kBadConfiguration, "{} is {}; it must be {}", option, value, allowed);
  };
  require(!options.corpus.empty(), "--corpus", "empty", "a corpus file");
  require(!options.model_dir.empty(), "--model-dir", "empty", "a folder");
  require(options.batch_source_tokens >= 1 && options.batch_source_tokens <= kMaxTokens,
          "--batch-source-tokens", std::to_string(options.batch_source_tokens), "from 1 to 2147483647");
  require(options.batch_target_tokens >= 1 && options.batch_target_tokens <= kMaxTokens,
          "--batch-target-tokens", std::to_string(options.batch_target_tokens), "from 1 to 2147483647");
  require(options.micro_batch_tokens >= 0, "--micro-batch-tokens", std::to_string(options.micro_batch_tokens),
          "0 or more");
  require(options.logical_shards >= 0, "--logical-shards", std::to_string(options.logical_shards),
          "0 or more");
  for (const auto& [option, alpha] : {std::pair("--sample-source", options.sample_source),
                                      std::pair("--sample-target", options.sample_target)})
    require(alpha >= 0.0 && alpha <= 1.0, option, std::to_string(alpha), "from 0 to 1");
  require(options.max_steps >= 0 && options.max_steps < (int64_t{1} << 32), "--max-steps",
          std::to_string(options.max_steps), "from 0 to 4294967295");
  require(options.log_every >= 1, "--log-every", std::to_string(options.log_every), "positive");
  require(options.keep_checkpoints >= 1, "--keep-checkpoints", std::to_string(options.keep_checkpoints),
          "positive");
  require(options.gradient_dtype != DType::kF64, "--gradient-dtype", "f64", "f32 or bf16");
  require(options.reduction == Reduction::kFast || options.gradient_dtype == DType::kF32, "--gradient-dtype",
          "bf16", "f32 with --reduction reproducible, which sums in f32");
  require(!options.shard_optimizer || options.gradient_dtype == DType::kF32, "--gradient-dtype", "bf16",
          "f32 with --shard-optimizer, which sums in f32");
  const bool from_model = !options.initial_model.empty();
  require(options.initial_optimizer == "fresh" || (options.initial_optimizer == "keep" && from_model),
          "--init-optimizer", options.initial_optimizer, "fresh, or keep with --init");
  require(options.initial_vocabulary == "match" || (options.initial_vocabulary == "extend" && from_model),
          "--init-vocabulary", options.initial_vocabulary, "match, or extend with --init");
  const std::vector<std::string>& embeddings = options.initial_embeddings;
  require(embeddings.empty() || !from_model, "--init-embeddings",
          fmt::format("{}", fmt::join(embeddings, " ")), "absent with --init, whose model has an embedding");
  require(embeddings.size() <= 2, "--init-embeddings", fmt::format("{} files", embeddings.size()),
          "one file, or those of sources and targets");
  const std::string& metric = options.valid_metric;
  require(
      metric == "auto" || metric == "bleu" || metric == "chrf" || metric == "loss" || metric == "perplexity",
      "--valid-metric", metric, "auto, bleu, chrf, loss or perplexity");
  require(options.valid_beam_size >= 0, "--valid-beam-size", std::to_string(options.valid_beam_size),
          "0 or more");
  require(options.translates_validation() || !sentence_metric(options), "--valid-beam-size", "0",
          "positive with --valid-metric bleu or chrf, which are of translations");
  require(options.translates_validation() || options.valid_script.empty(), "--valid-beam-size", "0",
          "positive with --valid-script, which scores translations");
  require(options.valid_every > 0 || options.valid_script.empty(), "--valid-every", "0",
          "positive with --valid-script");
  static_cast<void>(ValidationScorer(options));
  check_schedule(options);
  require(options.ema >= 0.0 && options.ema < 1.0, "--ema", std::to_string(options.ema),
          "at least 0 and below 1");
  static_cast<void>(resolved_precision(options.precision, Precision::kAuto, device));
  static_cast<void>(save_timeout());
  return options;
}

}  // namespace ventris
