// SPDX-License-Identifier: Apache-2.0
#include "trainer/train_options_json.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <type_traits>
#include <vector>

#include "backend/device/error.h"
#include "data/io/atomic_file.h"
#include "data/io/file_format.h"
#include "data/io/json_text.h"
#include "trainer/checkpoint/config_json.h"
#include "trainer/checkpoint/run_folder.h"
#include "trainer/json_text.h"
#include "trainer/json_value.h"

namespace ventris {
namespace {

using nlohmann::json;

constexpr const char* kModel = "model";
constexpr const char* kEnvironment = "environment";
constexpr const char* kFormat = data::kFormatKey;
constexpr const char* kTieName = "tie";
// All except the model. A file may lack an option, which then has its default.
template <typename Options, typename Visit>
void visit_options(Options& options, Visit&& visit) {
  visit("corpus", options.corpus);
  visit("model_dir", options.model_dir);
  visit("preset", options.preset);
  visit(kTieName, options.tie);
  visit("begin_embedding", options.begin_embedding);
  visit("batch_source_tokens", options.batch_source_tokens);
  visit("batch_target_tokens", options.batch_target_tokens);
  visit("recompute", options.recompute);
  visit("logical_shards", options.logical_shards);
  visit("micro_batch_tokens", options.micro_batch_tokens);
  visit("seed", options.seed);
  visit("mix", options.mix);
  visit("sample_source", options.sample_source);
  visit("sample_target", options.sample_target);
  visit("max_steps", options.max_steps);
  visit("max_epochs", options.max_epochs);
  visit("max_minutes", options.max_minutes);
  visit("learning_rate_scale", options.learning_rate_scale);
  visit("warmup_steps", options.warmup_steps);
  visit("schedule", options.schedule.kind);
  visit("peak_learning_rate", options.schedule.peak);
  visit("decay_steps", options.schedule.decay_steps);
  visit("plateau_patience", options.schedule.plateau_patience);
  visit("plateau_factor", options.schedule.plateau_factor);
  visit("beta1", options.beta1);
  visit("beta2", options.beta2);
  visit("adam_epsilon", options.adam_epsilon);
  visit("clip_norm", options.clip_norm);
  visit("weight_decay", options.weight_decay);
  visit("ema", options.ema);
  visit("precision", options.precision);
  visit("gradient_dtype", options.gradient_dtype);
  visit("reduction", options.reduction);
  visit("shard_optimizer", options.shard_optimizer);
  visit("valid_every", options.valid_every);
  visit("valid_beam_size", options.valid_beam_size);
  visit("valid_max_sentences", options.valid_max_sentences);
  visit("valid_tokenize", options.valid_tokenize);
  visit("keep_valid_outputs", options.keep_valid_outputs);
  visit("valid_script", options.valid_script);
  visit("valid_metric", options.valid_metric);
  visit("patience", options.patience);
  visit("save_every", options.save_every);
  visit("keep_checkpoints", options.keep_checkpoints);
  visit("log_every", options.log_every);
  visit("digest_every", options.digest_every);
  visit("tensorboard", options.tensorboard);
  visit("resume", options.resume);
  visit("initial_model", options.initial_model);
  visit("initial_optimizer", options.initial_optimizer);
  visit("initial_vocabulary", options.initial_vocabulary);
  visit("initial_embeddings", options.initial_embeddings);
  visit("freeze", options.freeze);
  visit("device", options.device);
  visit("no_cuda_graph", options.no_cuda_graph);
  visit("profile", options.profile);
  visit("comm_timeout", options.comm_timeout);
  visit("threads", options.threads);
}

template <typename T>
json to_value(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return name_of(value);
  } else {
    return to_json_value<json>(value);
  }
}

template <typename T>
std::vector<T> values_of() {
  if constexpr (std::is_same_v<T, DType>) return {DType::kF32, DType::kBF16};
  if constexpr (std::is_same_v<T, Precision>)
    return {Precision::kAuto, Precision::kF32, Precision::kTf32, Precision::kBF16};
  if constexpr (std::is_same_v<T, Reduction>) return {Reduction::kFast, Reduction::kReproducible};
  if constexpr (std::is_same_v<T, ScheduleKind>) return {std::begin(kSchedules), std::end(kSchedules)};
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

/// False if the JSON value is not of that type, or out of its range.
template <typename T>
bool read_value(const json& from, T& to) {
  if constexpr (std::is_enum_v<T>) {
    return read_name(from, to);
  } else {
    return read_json_value(from, to);
  }
}

/// Description of the values that read_value() accepts.
template <typename T>
std::string expected_value() {
  if constexpr (std::is_enum_v<T>) {
    std::string names;
    for (const T value : values_of<T>()) names += (names.empty() ? "" : " or ") + std::string(name_of(value));
    return names;
  } else {
    return expected_json_value<T>();
  }
}

json json_of(const TrainOptions& options) {
  json object = {{kFormat, data::kConfigFormat}, {kModel, data::read_json(to_json(options.model))}};
  visit_options(options, [&](const char* key, const auto& option) { object[key] = to_value(option); });
  return object;
}

}  // namespace

std::string to_json(const TrainOptions& options) {
  return json_text(json_of(options), 2);
}

json flat_options(const TrainOptions& options) {
  json object = data::read_json(to_json(options));
  for (json& value : object) {
    if (value.is_array()) value = fmt::format("{}", fmt::join(value.get<std::vector<std::string>>(), " "));
  }
  return object.flatten();
}

std::string config_json(const TrainOptions& options, const std::string& environment) {
  json object = json_of(options);
  if (!environment.empty()) object[kEnvironment] = parse_json(environment);
  return json_text(object, 2);
}

TrainOptions train_options_from_json(const std::string& text, const std::string& origin) {
  const json object = parse_json(text);
  refuse_newer_format(object, origin);
  if (!object.is_object() || !object.contains(kModel)) {
    fail(ExitCode::kBadData,
         "{}: is not a JSON object with the options of a run, such as the config.json of a run folder{}",
         origin, object.is_object() ? ": it has no model" : "");
  }
  if (object.contains(kFormat) && object[kFormat] != data::kConfigFormat) {
    fail(ExitCode::kBadData, "{}: its format is {}; expected is \"{}\", the options of a run", origin,
         data::utf8_json_text(object[kFormat]), data::kConfigFormat);
  }
  TrainOptions options;
  options.model = transformer_config_from_json(data::utf8_json_text(object[kModel]), origin);
  options.tie = name_of(options.model.tie);  // unless the file says more
  std::set<std::string> known = {kModel, kEnvironment, kFormat};
  visit_options(options, [&](const char* key, auto& option) {
    known.insert(key);
    const auto found = object.find(key);
    if (found != object.end() && !read_value(*found, option)) {
      fail(ExitCode::kBadData, "{}: {} is {}, which is not a value of that option; expected is {}", origin,
           key, found->dump(), expected_value<std::remove_reference_t<decltype(option)>>());
    }
  });
  for (const auto& [key, value] : object.items()) {
    if (known.contains(key)) continue;
    fail(ExitCode::kBadData, "{}: has the unknown option {}: {}", origin, key,
         is_key_of_config(key) ? "it belongs in \"model\"" : "it is misspelt, or from another version");
  }
  return options;
}

TrainOptions recorded_options(const std::string& folder) {
  const std::string path = path_of_config(folder);
  const std::vector<uint8_t> bytes = data::read_file(path, data::kMaxTextBytes);
  return train_options_from_json({bytes.begin(), bytes.end()}, path);
}

}  // namespace ventris
