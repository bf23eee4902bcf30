// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "data/io/json_text.h"
#include "data/io/safetensors.h"
#include "trainer/checkpoint/file_precision.h"
#include "trainer/exchange/export_formats.h"

// The layout of MarianMTModel of Hugging Face's transformers: PyTorch's weights [out, in], sine positions
// before cosine positions, a SentencePiece model and the tokens with their ids.

namespace ventris {
namespace {

using OrderedJson = nlohmann::ordered_json;

/// A tensor of the layout, and the parameter that it holds.
struct Entry {
  std::string name;
  std::string parameter;
  bool transpose = false;
};

class Layout {
 public:
  explicit Layout(const TransformerConfig& config) {
    if (config.tie == Tie::kAll) {
      entries_.push_back({"model.shared.weight", kEmbedding});
    } else {
      entries_.push_back({"model.encoder.embed_tokens.weight", kSourceEmbedding});
      entries_.push_back({"model.decoder.embed_tokens.weight", kTargetEmbedding});
    }
    if (config.tie == Tie::kNone) entries_.push_back({"lm_head.weight", kOutputWeight});
    for (int i = 0; i < config.encoder_layers; ++i) {
      add_layer(fmt::format("model.encoder.layers.{}", i), fmt::format("encoder/layers/{}", i), false);
    }
    for (int i = 0; i < config.decoder_layers; ++i) {
      add_layer(fmt::format("model.decoder.layers.{}", i), fmt::format("decoder/layers/{}", i), true);
    }
  }
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  void add_linear(const std::string& to, const std::string& from) {
    entries_.push_back({to + ".weight", from + "/weight", true});
    entries_.push_back({to + ".bias", from + "/bias"});
  }
  void add_norm(const std::string& to, const std::string& from) {
    entries_.push_back({to + ".weight", from + "/gamma"});
    entries_.push_back({to + ".bias", from + "/beta"});
  }
  void add_attention(const std::string& to, const std::string& from) {
    add_linear(to + ".q_proj", from + "/query");
    add_linear(to + ".k_proj", from + "/key");
    add_linear(to + ".v_proj", from + "/value");
    add_linear(to + ".out_proj", from + "/output");
    add_norm(to + "_layer_norm", from + "/norm");
  }
  void add_layer(const std::string& to, const std::string& from, bool cross_attention) {
    add_attention(to + ".self_attn", from + "/self_attention");
    if (cross_attention) add_attention(to + ".encoder_attn", from + "/cross_attention");
    add_linear(to + ".fc1", from + "/feed_forward/inner");
    add_linear(to + ".fc2", from + "/feed_forward/outer");
    add_norm(to + ".final_layer_norm", from + "/feed_forward/norm");
  }

  std::vector<Entry> entries_;
};

std::string write_tensors(const std::string& path, Context& context, const LoadedModel& model,
                          FilePrecision precision) {
  const ModelArrays arrays(context, model.store, ChannelOrder::kSinesFirst);
  const Layout layout(model.config);
  std::vector<data::SafeTensor> tensors;
  for (const Entry& entry : layout.entries()) {
    const LogicalParameter* parameter = model.store.find(entry.parameter);
    std::vector<int64_t> shape = shape_in_files(*parameter);
    if (entry.transpose) std::swap(shape.front(), shape.back());
    const bool bf16 = precision_of(*parameter, precision) == FilePrecision::kBF16;
    tensors.push_back({.name = entry.name, .type = bf16 ? "BF16" : "F32", .shape = shape});
  }
  const int64_t tokens = model.config.vocab_size;
  tensors.push_back({.name = "final_logits_bias", .type = "F32", .shape = {1, tokens}});
  Array array;
  std::vector<BF16> rounded;
  size_t next = 0;
  data::write_safetensors(path, {{"format", "pt"}}, tensors, [&](const data::SafeTensor& tensor) {
    if (next == layout.entries().size()) {
      if (model.config.output_bias) {
        array = arrays.get(kOutputBias);
      } else {
        array.values.assign(static_cast<size_t>(tokens), 0.0F);
      }
    } else {
      const Entry& entry = layout.entries()[next++];
      array = arrays.get(entry.parameter);
      if (entry.transpose) array = transposed(array);
    }
    if (tensor.type != "BF16") return bytes_of(array.values);
    return bytes_of(rounded = bf16_values(array.values));
  });
  return path;
}

OrderedJson model_config(const TransformerConfig& config, const data::Tokenizer& tokenizer,
                         FilePrecision precision) {
  return {{"architectures", {"MarianMTModel"}},
          {"model_type", "marian"},
          {"vocab_size", config.source_vocab()},
          {"decoder_vocab_size", config.vocab_size},
          {"d_model", config.d_model},
          {"encoder_layers", config.encoder_layers},
          {"decoder_layers", config.decoder_layers},
          {"encoder_attention_heads", config.heads},
          {"decoder_attention_heads", config.heads},
          {"encoder_ffn_dim", config.d_ff},
          {"decoder_ffn_dim", config.d_ff},
          {"activation_function", name_of(config.activation)},
          {"max_position_embeddings", config.max_positions},
          {"static_position_embeddings", true},
          {"scale_embedding", true},
          {"normalize_before", false},
          {"normalize_embedding", false},
          {"add_final_layer_norm", false},
          {"share_encoder_decoder_embeddings", config.tie == Tie::kAll},
          {"tie_word_embeddings", config.tie != Tie::kNone},
          {"is_encoder_decoder", true},
          {"dropout", std::stod(fmt::format("{}", config.dropout))},
          {"attention_dropout", std::stod(fmt::format("{}", config.attention_dropout))},
          {"activation_dropout", std::stod(fmt::format("{}", config.activation_dropout))},
          {"bos_token_id", tokenizer.begin_id()},
          {"decoder_start_token_id", tokenizer.begin_id()},
          {"pad_token_id", tokenizer.begin_id()},
          {"eos_token_id", tokenizer.end_id()},
          {"forced_eos_token_id", tokenizer.end_id()},
          {"torch_dtype", precision == FilePrecision::kBF16 ? "bfloat16" : "float32"}};
}

OrderedJson generation_config(const TransformerConfig& config, const data::Tokenizer& tokenizer) {
  return {{"bos_token_id", tokenizer.begin_id()},
          {"decoder_start_token_id", tokenizer.begin_id()},
          {"pad_token_id", tokenizer.begin_id()},
          {"eos_token_id", tokenizer.end_id()},
          {"forced_eos_token_id", tokenizer.end_id()},
          {"suppress_tokens", {tokenizer.unknown_id(), tokenizer.begin_id()}},
          {"num_beams", 4},
          {"length_penalty", 0.6},
          {"max_length", config.max_positions}};
}

/// JSON of all tokens with their ids, one a line.
std::string vocabulary_ids(const data::Tokenizer& tokenizer) {
  std::string vocabulary = "{";
  int id = 0;
  for (const std::string& piece : pieces_of(tokenizer)) {
    vocabulary +=
        fmt::format("{}\n  {}: {}", id == 0 ? "" : ",", data::utf8_json_text(OrderedJson(piece)), id);
    ++id;
  }
  return vocabulary + "\n}\n";
}

}  // namespace

std::vector<std::string> export_huggingface(Context& context, const LoadedModel& model,
                                            const std::string& folder, FilePrecision precision) {
  const TransformerConfig& config = model.config;
  const data::Tokenizer& tokenizer = model.tokenizers->target();
  const bool shared = model.tokenizers->shared();
  std::vector<std::string> files;
  files.push_back(write_tensors(folder + "/model.safetensors", context, model, precision));
  const auto write = [&](const char* name, const OrderedJson& content) {
    files.push_back(write_in_folder(folder, name, data::utf8_json_text(content, 2) + "\n"));
  };
  write("config.json", model_config(config, tokenizer, precision));
  write("generation_config.json", generation_config(config, tokenizer));
  const std::string begin = tokenizer.piece(tokenizer.begin_id());
  write("tokenizer_config.json", {{"tokenizer_class", "MarianTokenizer"},
                                  {"unk_token", tokenizer.piece(tokenizer.unknown_id())},
                                  {"eos_token", tokenizer.piece(tokenizer.end_id())},
                                  {"pad_token", begin},
                                  {"model_max_length", config.max_positions},
                                  {"separate_vocabs", !shared}});
  const data::Tokenizer& of_sources = model.tokenizers->source();
  files.push_back(write_in_folder(folder, "vocab.json", vocabulary_ids(of_sources)));
  if (!shared) files.push_back(write_in_folder(folder, "target_vocab.json", vocabulary_ids(tokenizer)));
  files.push_back(write_in_folder(folder, "source.spm", of_sources.model()));
  files.push_back(write_in_folder(folder, "target.spm", tokenizer.model()));
  return files;
}

}  // namespace ventris
