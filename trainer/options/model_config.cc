// SPDX-License-Identifier: Apache-2.0
#include "trainer/options/model_config.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "backend/device/error.h"
#include "data/io/json_text.h"
#include "trainer/json_text.h"

namespace ventris {
namespace {

using nlohmann::json;

/// All fields of files, each once: the rows of options, and those for options that have another form there.
void add_model_fields(TransformerConfig& model, OptionTable& table) {
  add_model_rows(model, table);
  add_vocabulary_rows(model, table);
  table.toggle("learned-positions", model.learned_positions, "");  // --positions
  table.toggle("marian-positions", model.marian_positions, "", kSparse);
  table.integer("zero-word", model.zero_token, {}, "", kSparse);  // --begin-embedding zero
  table.toggle("zero-start", model.zero_start, "", kSparse);      // --begin-embedding none
  table.choice<Tie>("tie", model.tie, {{"all", Tie::kAll}, {"decoder", Tie::kDecoder}, {"none", Tie::kNone}},
                    "", kSparse);
}

/// A copy of a configuration, with its fields.
struct ModelFields {
  explicit ModelFields(const TransformerConfig& given = {}) : config(given) {
    OptionTable table;
    add_model_fields(config, table);
    for (const Option& field : table.options()) {
      if (field.to_json) fields.push_back(field);
    }
  }
  ModelFields(const ModelFields&) = delete;
  ModelFields& operator=(const ModelFields&) = delete;

  TransformerConfig config;
  std::vector<Option> fields;
};

json all_keys(const TransformerConfig& config) {
  json object = json::object();
  const ModelFields model(config);
  for (const Option& field : model.fields) object[field.key()] = field.to_json();
  return object;
}

}  // namespace

void add_model_rows(TransformerConfig& model, OptionTable& table) {
  table.group("Model");
  table.section(kModelSection);
  table.integer("encoder-layers", model.encoder_layers, {.min = 1, .max = 256}, "Layers of the encoder.",
                kFixed | kByPreset);
  table.integer("decoder-layers", model.decoder_layers, {.min = 1, .max = 256}, "Layers of the decoder.",
                kFixed | kByPreset);
  table.integer("d-model", model.d_model, {.min = 2, .max = 16384},
                "Width of the model: even and a multiple of --heads.", kFixed | kByPreset);
  table.integer("d-ff", model.d_ff, {.min = 1, .max = 65536}, "Inner width of the feed-forward layers.",
                kFixed | kByPreset);
  table.integer("heads", model.heads, {.min = 1, .max = 256}, "Attention heads.", kFixed | kByPreset);
  table.toggle("pre-norm", model.pre_norm,
               "LayerNorm before each sublayer, and once after the last layer, "
               "instead of after each sublayer as in the paper.",
               kFixed | kByPreset);
  Option& positions = table.choice(
      "positions", {"paper", "marian", "learned"},
      [&model](size_t index) {
        model.marian_positions = index == 1;
        model.learned_positions = index == 2;
      },
      [&model] {
        return size_t{model.learned_positions ? 2U : model.marian_positions ? 1U : 0U};
      },
      "paper: sinusoids with frequencies 10000^(-2i/d). marian: sinusoids with 10000^(-i/(d/2-1)), the only "
      "ones that Marian supports. learned: a trained vector for each position.",
      kFixed);
  positions.to_json = nullptr;  // two fields, below
  std::vector<std::pair<std::string, Activation>> activations;
  for (const Activation f : kActivations) activations.emplace_back(name_of(f), f);
  table.choice(
      "activation", model.activation, activations,
      "Between the two products of a feed-forward layer: relu, as in the paper; gelu, x * Phi(x), exact as "
      "in fairseq and transformers; or swish, x * sigmoid(x), the default of Marian.",
      kFixed | kSparse);
  table.toggle("output-bias", model.output_bias,
               "A learned bias for every token in the output layer, as in Marian.", kFixed | kSparse);
  table.integer("max-positions", model.max_positions, {.min = 2, .max = 1 << 20},
                "Longest sentence in tokens, including its end mark.", kFixed | kByPreset);
  table.number("dropout", model.dropout, {.min = 0, .max = 1, .below_max = true},
               "Dropout rate of sublayer outputs and of the sums of embeddings and positions.",
               kFixed | kByPreset);
  table.number("attention-dropout", model.attention_dropout, {.min = 0, .max = 1, .below_max = true},
               "Dropout rate of attention weights.", kFixed | kByPreset);
  table.number("activation-dropout", model.activation_dropout, {.min = 0, .max = 1, .below_max = true},
               "Dropout rate of the hidden layers of feed-forward sublayers, after their activation.",
               kFixed | kSparse);
  table.number("label-smoothing", model.label_smoothing, {.min = 0, .max = 1, .below_max = true},
               "Probability that label smoothing distributes over the vocabulary.", kFixed | kByPreset);
  table.number("layer-norm-epsilon", model.layer_norm_epsilon, {.min = 0, .max = 1, .above_min = true},
               "Added to the variance in LayerNorm.", kFixed | kByPreset);
}

void add_vocabulary_rows(TransformerConfig& model, OptionTable& table) {
  table.section(kModelSection);
  table.integer("vocab-size", model.vocab_size, {}, "", kFixed);
  table.integer("source-vocab-size", model.source_vocab_size, {}, "", kFixed | kSparse);
}

std::string to_json(const TransformerConfig& config) {
  json object = all_keys(config);
  const ModelFields defaults;
  for (const Option& field : defaults.fields) {
    if (field.has(kSparse) && object[field.key()] == field.to_json()) object.erase(field.key());
  }
  return data::utf8_json_text(object);
}

bool is_key_of_config(const std::string& key) {
  return all_keys({}).contains(key);
}

void copy_training_settings(const TransformerConfig& from, TransformerConfig& to) {
  to.dropout = from.dropout;
  to.attention_dropout = from.attention_dropout;
  to.activation_dropout = from.activation_dropout;
  to.label_smoothing = from.label_smoothing;
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
  ModelFields read;
  for (const Option& field : read.fields) {
    const std::string key = field.key();
    const auto found = object.find(key);
    if (found == object.end() && field.has(kSparse)) continue;
    if (found == object.end()) {
      fail(ExitCode::kBadData, "{}: the model's configuration lacks the key {}", origin, key);
    }
    if (!field.from_json(*found)) {
      fail(ExitCode::kBadData, "{}: {} of the model's configuration is {}; expected is {}", origin, key,
           found->dump(), field.json_type);
    }
  }
  for (const auto& [key, value] : object.items()) {
    if (is_key_of_config(key)) continue;
    fail(ExitCode::kBadData,
         "{}: the model's configuration has the unknown key {}: it is misspelt, or from another version",
         origin, key);
  }
  try {
    read.config.validate();
  } catch (const Error& error) {  // in the words of options, of which the user may have given none
    fail(ExitCode::kBadData, "{}: the model's configuration is of no model that 'ventris train' makes: {}",
         origin, error.what());
  }
  return read.config;
}

}  // namespace ventris
