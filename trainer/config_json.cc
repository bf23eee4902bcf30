#include "trainer/config_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>
#include <type_traits>

#include "backend/error.h"

namespace ventris {
namespace {

using nlohmann::json;

constexpr const char* kZeroWord = "zero_word";

// Calls visit(key, field) for each field, so that writing and reading cannot differ. zero_word is written
// only where there is one: files from before it was there have none.
template <typename Config, typename Visit>
void visit_fields(Config& config, Visit&& visit) {
  visit("encoder_layers", config.encoder_layers);
  visit("decoder_layers", config.decoder_layers);
  visit("d_model", config.d_model);
  visit("d_ff", config.d_ff);
  visit("heads", config.heads);
  visit("vocab_size", config.vocab_size);
  visit("pre_norm", config.pre_norm);
  visit("learned_positions", config.learned_positions);
  visit("max_positions", config.max_positions);
  visit("dropout", config.dropout);
  visit("attention_dropout", config.attention_dropout);
  visit("label_smoothing", config.label_smoothing);
  visit("layer_norm_epsilon", config.layer_norm_epsilon);
  visit(kZeroWord, config.zero_word);
}

// The shortest decimal that reads back as the same f32: 0.1, not 0.10000000149.
double shortest(float value) {
  return std::stod(fmt::format("{}", value));
}

template <typename T>
json to_value(const T& value) {
  if constexpr (std::is_same_v<T, float>) {
    return shortest(value);
  } else {
    return value;
  }
}

template <typename T>
bool holds(const json& value) {
  if constexpr (std::is_same_v<T, bool>) return value.is_boolean();
  if constexpr (std::is_floating_point_v<T>) return value.is_number();
  return value.is_number_integer();
}

json model_json(const TransformerConfig& config) {
  json object = json::object();
  visit_fields(config, [&](const char* key, const auto& field) { object[key] = to_value(field); });
  if (config.zero_word < 0) object.erase(kZeroWord);
  return object;
}

}  // namespace

std::string to_json(const TransformerConfig& config) {
  return model_json(config).dump();
}

std::string to_json(const TrainOptions& options) {
  const json object = {
      {"corpus", options.corpus},
      {"model_dir", options.model_dir},
      {"preset", options.preset},
      {"model", model_json(options.model)},
      {"begin_embedding", options.begin_embedding},
      {"batch_source_tokens", options.batch_source_tokens},
      {"batch_target_tokens", options.batch_target_tokens},
      {"logical_shards", options.logical_shards},
      {"micro_batch_tokens", options.micro_batch_tokens},
      {"seed", options.seed},
      {"max_steps", options.max_steps},
      {"max_epochs", options.max_epochs},
      {"max_minutes", options.max_minutes},
      {"learning_rate_scale", options.learning_rate_scale},
      {"warmup_steps", options.warmup_steps},
      {"beta1", shortest(options.beta1)},
      {"beta2", shortest(options.beta2)},
      {"adam_epsilon", shortest(options.adam_epsilon)},
      {"clip_norm", options.clip_norm},
      {"ema", options.ema},
      {"precision", name_of(options.precision)},
      {"gradient_dtype", name_of(options.gradient_dtype)},
      {"valid_every", options.valid_every},
      {"valid_beam_size", options.valid_beam_size},
      {"valid_length_penalty", shortest(options.valid_length_penalty)},
      {"valid_bleu", options.valid_bleu},
      {"valid_chrf", options.valid_chrf},
      {"valid_max_sentences", options.valid_max_sentences},
      {"valid_metric", options.valid_metric},
      {"patience", options.patience},
      {"save_every", options.save_every},
      {"keep_checkpoints", options.keep_checkpoints},
      {"log_every", options.log_every},
      {"digest_every", options.digest_every},
      {"check_ranks_every", options.check_ranks_every},
      {"on_divergence", options.on_divergence == OnDivergence::kRepair ? "repair" : "stop"},
      {"resume", options.resume},
      {"device", options.device},
      {"no_cuda_graph", options.no_cuda_graph},
      {"profile", options.profile},
      {"comm_timeout", options.comm_timeout},
      {"threads", options.threads},
  };
  return object.dump(2);
}

TransformerConfig transformer_config_from_json(const std::string& text, const std::string& origin) {
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object()) {
    fail(ExitCode::kBadData, "{}: the model's configuration is not a JSON object", origin);
  }
  TransformerConfig config;
  size_t known = 0;
  visit_fields(config, [&](const char* key, auto& field) {
    using Field = std::remove_reference_t<decltype(field)>;
    const auto found = object.find(key);
    if (found == object.end() && std::string_view(key) == kZeroWord) return;
    if (found == object.end()) {
      fail(ExitCode::kBadData, "{}: the model's configuration lacks the key {}", origin, key);
    }
    if (!holds<Field>(*found)) {
      fail(ExitCode::kBadData, "{}: {} of the model's configuration is {}, which is of another type", origin,
           key, found->dump());
    }
    field = found->template get<Field>();
    ++known;
  });
  if (object.size() != known) {
    TransformerConfig any;
    any.zero_word = 0;
    const json expected = model_json(any);
    for (const auto& [key, value] : object.items()) {
      if (!expected.contains(key)) {
        fail(ExitCode::kBadData,
             "{}: the model's configuration has the unknown key {}: it may come from a newer version", origin,
             key);
      }
    }
  }
  config.validate();
  return config;
}

std::string resume_signature(const TrainOptions& options) {
  std::string lines;
  visit_fields(options.model, [&](const char* key, const auto& field) {
    if (std::string_view(key) == kZeroWord && options.model.zero_word < 0) return;
    lines += fmt::format("{}: {}\n", key, field);
  });
  lines += fmt::format("batch_source_tokens: {}\nbatch_target_tokens: {}\nlogical_shards: {}\nseed: {}\n",
                       options.batch_source_tokens, options.batch_target_tokens, options.logical_shards,
                       options.seed);
  lines += fmt::format("beta1: {}\nbeta2: {}\nadam_epsilon: {}\nprecision: {}\ngradient_dtype: {}\n",
                       options.beta1, options.beta2, options.adam_epsilon, name_of(options.precision),
                       name_of(options.gradient_dtype));
  if (options.ema > 0.0) lines += fmt::format("ema: {}\n", options.ema);
  return lines;
}

}  // namespace ventris
