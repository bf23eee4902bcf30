#include "trainer/files/config_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "backend/error.h"
#include "data/files/atomic_file.h"
#include "trainer/files/json_number.h"
#include "trainer/files/json_text.h"
#include "trainer/files/run_folder.h"

namespace ventris {
namespace {

using nlohmann::json;

constexpr const char* kModel = "model";
constexpr const char* kEnvironment = "environment";
constexpr const char* kFormat = data::kFormatKey;

/// Written only where it is not the default: files from before it was there have none.
constexpr const char* kLaterKeys[] = {"zero_word", "marian_positions", "zero_start", "swish", "output_bias"};

bool is_later(std::string_view key) {
  return std::find(std::begin(kLaterKeys), std::end(kLaterKeys), key) != std::end(kLaterKeys);
}

// Calls visit(key, field) for each field, so that writing and reading cannot differ.
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
  visit("zero_word", config.zero_word);
  visit("marian_positions", config.marian_positions);
  visit("zero_start", config.zero_start);
  visit("swish", config.swish);
  visit("output_bias", config.output_bias);
}

// All but the model. Files from before an option was there lack it, and then it has its default.
template <typename Options, typename Visit>
void visit_options(Options& options, Visit&& visit) {
  visit("corpus", options.corpus);
  visit("model_dir", options.model_dir);
  visit("preset", options.preset);
  visit("begin_embedding", options.begin_embedding);
  visit("batch_source_tokens", options.batch_source_tokens);
  visit("batch_target_tokens", options.batch_target_tokens);
  visit("logical_shards", options.logical_shards);
  visit("micro_batch_tokens", options.micro_batch_tokens);
  visit("seed", options.seed);
  visit("max_steps", options.max_steps);
  visit("max_epochs", options.max_epochs);
  visit("max_minutes", options.max_minutes);
  visit("learning_rate_scale", options.learning_rate_scale);
  visit("warmup_steps", options.warmup_steps);
  visit("beta1", options.beta1);
  visit("beta2", options.beta2);
  visit("adam_epsilon", options.adam_epsilon);
  visit("clip_norm", options.clip_norm);
  visit("ema", options.ema);
  visit("precision", options.precision);
  visit("gradient_dtype", options.gradient_dtype);
  visit("reduction", options.reduction);
  visit("valid_every", options.valid_every);
  visit("valid_beam_size", options.valid_beam_size);
  visit("valid_length_penalty", options.valid_length_penalty);
  visit("valid_bleu", options.valid_bleu);
  visit("valid_chrf", options.valid_chrf);
  visit("valid_max_sentences", options.valid_max_sentences);
  visit("valid_tokenize", options.valid_tokenize);
  visit("valid_tokenize_with", options.valid_tokenize_with);
  visit("valid_metric", options.valid_metric);
  visit("patience", options.patience);
  visit("valid_target", options.valid_target);
  visit("save_every", options.save_every);
  visit("keep_checkpoints", options.keep_checkpoints);
  visit("log_every", options.log_every);
  visit("log_seconds", options.log_seconds);
  visit("progress", options.progress);
  visit("digest_every", options.digest_every);
  visit("check_ranks_every", options.check_ranks_every);
  visit("on_divergence", options.on_divergence);
  visit("resume", options.resume);
  visit("initial_model", options.initial_model);
  visit("device", options.device);
  visit("no_cuda_graph", options.no_cuda_graph);
  visit("profile", options.profile);
  visit("comm_timeout", options.comm_timeout);
  visit("save_timeout", options.save_timeout);
  visit("threads", options.threads);
}

// The shortest decimal that reads back as the same f32: 0.1, not 0.10000000149.
double shortest(float value) {
  return std::stod(fmt::format("{}", value));
}

std::string name_of(OnDivergence value) {
  return value == OnDivergence::kRepair ? "repair" : "stop";
}

template <typename T>
json to_value(const T& value) {
  if constexpr (std::is_same_v<T, float>) {
    return shortest(value);
  } else if constexpr (std::is_enum_v<T>) {
    return name_of(value);
  } else {
    return value;
  }
}

template <typename T>
std::vector<T> values_of() {
  if constexpr (std::is_same_v<T, DType>) return {DType::kF32, DType::kBF16};
  if constexpr (std::is_same_v<T, Reduction>) return {Reduction::kFast, Reduction::kReproducible};
  if constexpr (std::is_same_v<T, OnDivergence>) return {OnDivergence::kStop, OnDivergence::kRepair};
}

template <typename T>
bool read_name(const json& from, T& to) {
  for (const T value : values_of<T>()) {
    if (from != json(name_of(value))) continue;
    to = value;
    return true;
  }
  return false;
}

/// False if the JSON value is none of that type, or out of its range.
template <typename T>
bool read_value(const json& from, T& to) {
  if constexpr (std::is_same_v<T, std::string>) {
    if (!from.is_string()) return false;
    to = from.get<std::string>();
    return true;
  } else if constexpr (std::is_enum_v<T>) {
    return read_name(from, to);
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!from.is_boolean()) return false;
    to = from.get<bool>();
    return true;
  } else {
    return read_number(from, to);
  }
}

/// What read_value() takes, in words.
template <typename T>
std::string expected_value() {
  if constexpr (std::is_same_v<T, bool>) {
    return "true or false";
  } else if constexpr (std::is_arithmetic_v<T>) {
    return expected_number<T>();
  } else if constexpr (std::is_same_v<T, std::string>) {
    return "a text";
  } else {
    std::string names;
    for (const T value : values_of<T>()) names += (names.empty() ? "" : " or ") + std::string(name_of(value));
    return names;
  }
}

json all_keys(const TransformerConfig& config) {
  json object = json::object();
  visit_fields(config, [&](const char* key, const auto& field) { object[key] = to_value(field); });
  return object;
}

json model_json(const TransformerConfig& config) {
  const json object = all_keys(config);
  const json defaults = all_keys(TransformerConfig());
  json written = json::object();
  for (const auto& [key, value] : object.items()) {
    if (!is_later(key) || value != defaults[key]) written[key] = value;
  }
  return written;
}

}  // namespace

std::string to_json(const TransformerConfig& config) {
  return model_json(config).dump();
}

std::string differences(const TransformerConfig& theirs, const TransformerConfig& ours) {
  const json expected = all_keys(ours);
  const json found = all_keys(theirs);
  std::string text;
  for (const auto& [key, value] : found.items()) {
    if (value == expected[key]) continue;
    text += fmt::format("{}{} {}, not {}", text.empty() ? "" : "; ", key, value.dump(), expected[key].dump());
  }
  return text;
}

std::string to_json(const TrainOptions& options, const std::string& environment) {
  json object = {{kFormat, data::kConfigFormat}, {kModel, model_json(options.model)}};
  if (!environment.empty()) object[kEnvironment] = parse_json(environment);
  visit_options(options, [&](const char* key, const auto& option) { object[key] = to_value(option); });
  return json_text(object, 2);
}

TrainOptions train_options_from_json(const std::string& text, const std::string& origin) {
  const json object = parse_json(text);
  refuse_newer_format(object, origin);
  if (!object.is_object() || !object.contains(kModel)) {
    fail(ExitCode::kBadData,
         "{}: is not the JSON object with the options of a run, such as the config.json of a run folder{}",
         origin, object.is_object() ? ": it has no model" : "");
  }
  if (object.contains(kFormat) && object[kFormat] != data::kConfigFormat) {
    fail(ExitCode::kBadData, "{}: its format is {}; expected is \"{}\", the options of a run", origin,
         object[kFormat].dump(), data::kConfigFormat);
  }
  TrainOptions options;
  options.model = transformer_config_from_json(object[kModel].dump(), origin);
  std::set<std::string> known = {kModel, kEnvironment, kFormat};
  visit_options(options, [&](const char* key, auto& option) {
    known.insert(key);
    const auto found = object.find(key);
    if (found != object.end() && !read_value(*found, option)) {
      fail(ExitCode::kBadData, "{}: {} is {}, which is no value of that option; expected is {}", origin, key,
           found->dump(), expected_value<std::remove_reference_t<decltype(option)>>());
    }
  });
  for (const auto& [key, value] : object.items()) {
    if (known.contains(key)) continue;
    fail(ExitCode::kBadData, "{}: has the unknown option {}: {}", origin, key,
         all_keys(options.model).contains(key) ? "it belongs into \"model\""
                                               : "it is misspelt, or comes from a newer version");
  }
  return options;
}

TrainOptions recorded_options(const std::string& folder) {
  const std::string path = path_of_config(folder);
  const std::vector<uint8_t> bytes = data::read_file(path, data::kMostTextBytes);
  return train_options_from_json({bytes.begin(), bytes.end()}, path);
}

TransformerConfig transformer_config_from_json(const std::string& text, const std::string& origin) {
  const json object = parse_json(text);
  if (!object.is_object()) {
    fail(ExitCode::kBadData, "{}: the model's configuration is not a JSON object of at most {} bytes", origin,
         kMostJsonBytes);
  }
  TransformerConfig config;
  size_t known = 0;
  visit_fields(config, [&](const char* key, auto& field) {
    using Field = std::remove_reference_t<decltype(field)>;
    const auto found = object.find(key);
    if (found == object.end() && is_later(key)) return;
    if (found == object.end()) {
      fail(ExitCode::kBadData, "{}: the model's configuration lacks the key {}", origin, key);
    }
    if (!read_value(*found, field)) {
      fail(ExitCode::kBadData, "{}: {} of the model's configuration is {}; expected is {}", origin, key,
           found->dump(), expected_value<Field>());
    }
    ++known;
  });
  if (object.size() != known) {
    const json expected = all_keys(config);
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
  const json written = model_json(options.model);
  visit_fields(options.model, [&](const char* key, const auto& field) {
    if (!written.contains(key)) return;
    lines += fmt::format("{}: {}\n", key, field);
  });
  lines += fmt::format("batch_source_tokens: {}\nbatch_target_tokens: {}\nlogical_shards: {}\nseed: {}\n",
                       options.batch_source_tokens, options.batch_target_tokens, options.logical_shards,
                       options.seed);
  lines += fmt::format(
      "beta1: {}\nbeta2: {}\nadam_epsilon: {}\nprecision: {}\ngradient_dtype: {}\nreduction: {}\n",
      options.beta1, options.beta2, options.adam_epsilon, name_of(options.precision),
      name_of(options.gradient_dtype), name_of(options.reduction));
  if (options.ema > 0.0) lines += fmt::format("ema: {}\n", options.ema);
  return lines;
}

}  // namespace ventris
