// SPDX-License-Identifier: Apache-2.0
#include "trainer/checkpoint/config_json.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "backend/device/error.h"
#include "data/io/json_text.h"
#include "trainer/json_text.h"
#include "trainer/json_value.h"

namespace ventris {
namespace {

using nlohmann::json;

/// Written only if it is not the default, as older files do not have it.
constexpr const char* kLaterKeys[] = {"zero_word",         "marian_positions",  "zero_start",
                                      "activation",        "output_bias",       "tie",
                                      "source_vocab_size", "activation_dropout"};

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
  visit("activation", config.activation);
  visit("output_bias", config.output_bias);
  visit("tie", config.tie);
  visit("source_vocab_size", config.source_vocab_size);
  visit("activation_dropout", config.activation_dropout);
}

template <typename T>
json config_value(const T& field) {
  return to_json_value<json>(field);
}
json config_value(const Tie& tie) {
  return name_of(tie);
}
json config_value(const Activation& activation) {
  return name_of(activation);
}

template <typename T>
bool read_config_value(const json& from, T& field) {
  return read_json_value(from, field);
}
bool read_config_value(const json& from, Tie& tie) {
  const std::optional<Tie> read = from.is_string() ? tie_named(from.get<std::string>()) : std::nullopt;
  tie = read.value_or(tie);
  return read.has_value();
}

bool read_config_value(const json& from, Activation& activation) {
  const auto read = from.is_string() ? activation_named(from.get<std::string>()) : std::nullopt;
  activation = read.value_or(activation);
  return read.has_value();
}

template <typename T>
std::string expected_config_value() {
  if constexpr (std::is_same_v<T, Tie>) {
    return "all or decoder or none";
  } else if constexpr (std::is_same_v<T, Activation>) {
    return "relu or gelu or swish";
  } else {
    return expected_json_value<T>();
  }
}

json all_keys(const TransformerConfig& config) {
  json object = json::object();
  visit_fields(config, [&](const char* key, const auto& field) { object[key] = config_value(field); });
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
  return data::utf8_json_text(model_json(config));
}

std::string lines_of(const TransformerConfig& config) {
  std::string lines;
  const json written = model_json(config);
  visit_fields(config, [&](const char* key, const auto& field) {
    if (!written.contains(key)) return;
    if constexpr (std::is_enum_v<std::remove_cvref_t<decltype(field)>>) {
      lines += fmt::format("{}: {}\n", key, name_of(field));
    } else {
      lines += fmt::format("{}: {}\n", key, field);
    }
  });
  return lines;
}

bool is_key_of_config(const std::string& key) {
  return all_keys(TransformerConfig()).contains(key);
}

std::string differences(const TransformerConfig& theirs, const TransformerConfig& ours) {
  const json expected = all_keys(ours);
  const json found = all_keys(theirs);
  std::string text;
  for (const auto& [key, value] : found.items()) {
    if (value == expected[key]) continue;
    text += fmt::format("{}{} {}, not {}", text.empty() ? "" : "; ", key, data::utf8_json_text(value),
                        data::utf8_json_text(expected[key]));
  }
  return text;
}

TransformerConfig transformer_config_from_json(const std::string& text, const std::string& origin) {
  const json object = parse_json(text);
  if (!object.is_object()) {
    fail(ExitCode::kBadData, "{}: the model's configuration is not a JSON object of at most {} bytes", origin,
         kMaxJsonBytes);
  }
  TransformerConfig config;
  visit_fields(config, [&](const char* key, auto& field) {
    using Field = std::remove_reference_t<decltype(field)>;
    const auto found = object.find(key);
    if (found == object.end() && is_later(key)) return;
    if (found == object.end()) {
      fail(ExitCode::kBadData, "{}: the model's configuration lacks the key {}", origin, key);
    }
    if (!read_config_value(*found, field)) {
      fail(ExitCode::kBadData, "{}: {} of the model's configuration is {}; expected is {}", origin, key,
           found->dump(), expected_config_value<Field>());
    }
  });
  for (const auto& [key, value] : object.items()) {
    if (is_key_of_config(key)) continue;
    fail(ExitCode::kBadData,
         "{}: the model's configuration has the unknown key {}: it is misspelt, or from another version",
         origin, key);
  }
  try {
    config.validate();
  } catch (const Error& error) {  // in the words of options, of which the user may have given none
    fail(ExitCode::kBadData, "{}: the model's configuration is of no model that 'ventris train' makes: {}",
         origin, error.what());
  }
  return config;
}

}  // namespace ventris
