// SPDX-License-Identifier: Apache-2.0
#include "model/transformer_parameters.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "backend/ops/cast.h"

namespace ventris {

namespace {

/// Declares parameters whose names begin with one prefix.
class Declarer {
 public:
  Declarer(const TransformerConfig& config, ParameterStore& store) : config_(config), store_(store) {}

  LinearIds linear(const std::vector<std::string>& names, int64_t in, int64_t out_each) {
    std::vector<std::string> weights;
    std::vector<std::string> biases;
    for (const std::string& name : names) {
      weights.push_back(name + "/weight");
      biases.push_back(name + "/bias");
    }
    const ParameterId weight =
        store_.declare_fused_matrix(weights, in, out_each, Initializer::kXavierUniform);
    return {weight, store_.declare_fused_vector(biases, out_each, Initializer::kZero)};
  }

  NormIds norm(const std::string& prefix) {
    const ParameterId gamma = store_.declare_vector(prefix + "/gamma", config_.d_model, Initializer::kOne);
    return {gamma, store_.declare_vector(prefix + "/beta", config_.d_model, Initializer::kZero)};
  }

  SelfAttentionIds self_attention(const std::string& layer) {
    const std::string prefix = layer + "/self_attention";
    SelfAttentionIds ids;
    ids.query_key_value =
        linear({prefix + "/query", prefix + "/key", prefix + "/value"}, config_.d_model, config_.d_model);
    ids.output = linear({prefix + "/output"}, config_.d_model, config_.d_model);
    ids.norm = norm(prefix + "/norm");
    return ids;
  }

  CrossAttentionIds cross_attention(const std::string& layer) {
    const std::string prefix = layer + "/cross_attention";
    CrossAttentionIds ids;
    ids.query = linear({prefix + "/query"}, config_.d_model, config_.d_model);
    ids.output = linear({prefix + "/output"}, config_.d_model, config_.d_model);
    ids.norm = norm(prefix + "/norm");
    return ids;
  }

  FeedForwardIds feed_forward(const std::string& layer) {
    const std::string prefix = layer + "/feed_forward";
    FeedForwardIds ids;
    ids.inner = linear({prefix + "/inner"}, config_.d_model, config_.d_ff);
    ids.outer = linear({prefix + "/outer"}, config_.d_ff, config_.d_model);
    ids.norm = norm(prefix + "/norm");
    return ids;
  }

 private:
  const TransformerConfig& config_;
  ParameterStore& store_;
};

}  // namespace

bool is_table(std::string_view name) {
  return name == kEmbedding || name == kSourceEmbedding || name == kTargetEmbedding || name == kOutputWeight;
}

std::vector<ParameterId> TransformerIds::tables() const {
  std::vector<ParameterId> ids = {source_embedding, target_embedding, output};
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

TransformerIds declare_transformer(const TransformerConfig& config, ParameterStore& store) {
  config.validate();
  Declarer declare(config, store);
  TransformerIds ids;
  const auto table = [&](const char* name, int64_t tokens, int64_t padded) {
    return store.declare_matrix(name, tokens, config.d_model, Initializer::kNormal, padded);
  };
  const bool one_table = config.tie == Tie::kAll;
  ids.source_embedding =
      table(one_table ? kEmbedding : kSourceEmbedding, config.source_vocab(), config.padded_source_vocab());
  if (config.learned_positions) {
    ids.source_positions =
        store.declare_matrix("source_positions", config.max_positions, config.d_model, Initializer::kNormal);
    ids.target_positions =
        store.declare_matrix("target_positions", config.max_positions, config.d_model, Initializer::kNormal);
  }
  for (int i = 0; i < config.encoder_layers; ++i) {
    const std::string layer = fmt::format("encoder/layers/{}", i);
    EncoderLayerIds layer_ids;
    layer_ids.self_attention = declare.self_attention(layer);
    layer_ids.feed_forward = declare.feed_forward(layer);
    ids.encoder.push_back(layer_ids);
  }
  if (config.pre_norm) ids.encoder_norm = declare.norm("encoder/norm");
  ids.target_embedding =
      one_table ? ids.source_embedding : table(kTargetEmbedding, config.vocab_size, config.padded_vocab());
  std::vector<std::string> memory_names;
  for (int i = 0; i < config.decoder_layers; ++i) {
    memory_names.push_back(fmt::format("decoder/layers/{}/cross_attention/key", i));
    memory_names.push_back(fmt::format("decoder/layers/{}/cross_attention/value", i));
  }
  ids.memory_key_value = declare.linear(memory_names, config.d_model, config.d_model);
  for (int i = 0; i < config.decoder_layers; ++i) {
    const std::string layer = fmt::format("decoder/layers/{}", i);
    DecoderLayerIds layer_ids;
    layer_ids.self_attention = declare.self_attention(layer);
    layer_ids.cross_attention = declare.cross_attention(layer);
    layer_ids.feed_forward = declare.feed_forward(layer);
    ids.decoder.push_back(layer_ids);
  }
  if (config.pre_norm) ids.decoder_norm = declare.norm("decoder/norm");
  ids.output = config.tie == Tie::kNone ? table(kOutputWeight, config.vocab_size, config.padded_vocab())
                                        : ids.target_embedding;
  if (config.output_bias) {
    ids.output_bias =
        store.declare_vector(kOutputBias, config.vocab_size, Initializer::kZero, config.padded_vocab());
  }
  return ids;
}

int64_t end_of_embeddings(const ParameterStore& store) {
  const auto& all = store.logical();
  const auto first = std::find_if(all.begin(), all.end(), [](const LogicalParameter& parameter) {
    return parameter.name.starts_with("encoder/");
  });
  return first == all.end() ? 0 : store.gradient_begin(first->tensor);
}

void clear_zero_token(Context& context, const TransformerConfig& config, Tensor table) {
  if (config.zero_token >= 0 && table) fill_zero(context, table.row_range(config.zero_token, 1));
}

namespace {

/// The weights of all Linear layers.
std::vector<ParameterId> weights_of(const TransformerIds& ids) {
  std::vector<ParameterId> weights = {ids.memory_key_value.weight};
  const auto add = [&](const auto&... linear) { (weights.push_back(linear.weight), ...); };
  for (const EncoderLayerIds& layer : ids.encoder) {
    add(layer.self_attention.query_key_value, layer.self_attention.output, layer.feed_forward.inner,
        layer.feed_forward.outer);
  }
  for (const DecoderLayerIds& layer : ids.decoder) {
    add(layer.self_attention.query_key_value, layer.self_attention.output, layer.cross_attention.query,
        layer.cross_attention.output, layer.feed_forward.inner, layer.feed_forward.outer);
  }
  return weights;
}

}  // namespace

bool can_pack(const Context& context, const ParameterStore& store) {
  return context.device() == Device::kCpu && store.dtype() != DType::kF64;
}

void pack_parameters(Context& context, const TransformerIds& ids, ParameterStore& store, Packing packing) {
  store = store.packed_copy(context, packing, weights_of(ids), ids.tables(), &store);
}

ParameterStore packed_copy(Context& context, const TransformerIds& ids, const ParameterStore& store,
                           Packing packing) {
  return store.packed_copy(context, packing, weights_of(ids), ids.tables(), nullptr);
}

}  // namespace ventris
