// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "backend/device/context.h"
#include "model/parameters.h"
#include "model/transformer_config.h"

namespace ventris {

/// The logical names of the tables, [tokens, d_model]: of all three in one, or by Tie of those that the
/// decoder's embedding and the output layer share, or of each.
inline constexpr const char* kEmbedding = "embedding";
inline constexpr const char* kSourceEmbedding = "source_embedding";
inline constexpr const char* kTargetEmbedding = "target_embedding";
inline constexpr const char* kOutputWeight = "output/weight";
/// That of the bias of the output layer.
inline constexpr const char* kOutputBias = "output/bias";

/// The name of the decoder's embedding.
inline const char* name_of_target_embedding(Tie tie) {
  return tie == Tie::kAll ? kEmbedding : kTargetEmbedding;
}
/// Whether it is the name of a table.
bool is_table(std::string_view name);

struct LinearIds {
  ParameterId weight;  // [in, out]: y = x weight + bias
  ParameterId bias;    // [out]
};

struct NormIds {
  ParameterId gamma;  // [d_model]
  ParameterId beta;   // [d_model]
};

struct FeedForwardIds {
  LinearIds inner;  // [d_model, d_ff]
  LinearIds outer;  // [d_ff, d_model]
  NormIds norm;
};

struct SelfAttentionIds {
  LinearIds query_key_value;  // [d_model, 3 * d_model]: query, key, value side by side
  LinearIds output;           // [d_model, d_model]
  NormIds norm;
};

struct CrossAttentionIds {
  LinearIds query;   // [d_model, d_model]
  LinearIds output;  // [d_model, d_model]
  NormIds norm;
};

struct EncoderLayerIds {
  SelfAttentionIds self_attention;
  FeedForwardIds feed_forward;
};

struct DecoderLayerIds {
  SelfAttentionIds self_attention;
  CrossAttentionIds cross_attention;
  FeedForwardIds feed_forward;
};

/// The ids of all parameters of a Transformer, in forward order of declaration. In a post-norm model `norm`
/// belongs to the end of its sublayer, in a pre-norm model to its start.
struct TransformerIds {
  // The tables; those that are one have the same id:
  ParameterId source_embedding;       // [padded_source_vocab, d_model]
  ParameterId target_embedding;       // [padded_vocab, d_model]
  ParameterId output;                 // [padded_vocab, d_model]
  ParameterId source_positions = -1;  // [max_positions, d_model] if learned
  ParameterId target_positions = -1;
  std::vector<EncoderLayerIds> encoder;
  NormIds encoder_norm = {-1, -1};  // pre-norm only
  LinearIds memory_key_value;  // [d_model, decoder_layers * 2 * d_model]: key then value of layer 0, of layer
                               // 1, ...
  std::vector<DecoderLayerIds> decoder;
  NormIds decoder_norm = {-1, -1};  // pre-norm only
  ParameterId output_bias = -1;     // [padded_vocab] if there is one

  /// Of those that only the decoder has, the one that is declared first.
  ParameterId first_of_decoder() const {
    return target_embedding == source_embedding ? memory_key_value.weight : target_embedding;
  }
  /// Each table once.
  std::vector<ParameterId> tables() const;
};

/// Declares all parameters of the model. Logical names:
///   embedding, or source_embedding; source_positions and target_positions if learned;
///   encoder/layers/N/self_attention/{query,key,value,output}/{weight,bias};
///   encoder/layers/N/self_attention/norm/{gamma,beta};
///   encoder/layers/N/feed_forward/{inner,outer}/{weight,bias};
///   encoder/layers/N/feed_forward/norm/{gamma,beta};
///   target_embedding unless all tables are one;
///   decoder/layers/N/... the same, and cross_attention/...;
///   encoder/norm/{gamma,beta} and decoder/norm/{gamma,beta} in a pre-norm model;
///   output/weight if no tables are one; output/bias with an output bias.
TransformerIds declare_transformer(const TransformerConfig& config, ParameterStore& store);

/// The end of the embeddings at the begin of the gradients: backward completes their gradients last, all
/// at once, as the encoder's input adds to them. The decoder's own, if it has one, follows the encoder. 0 if
/// the store is not that of a Transformer.
int64_t end_of_embeddings(const ParameterStore& store);

/// If config.zero_token is a token, clears its row of `table`, the decoder's embedding or its gradient, which
/// may be empty.
void clear_zero_token(Context& context, const TransformerConfig& config, Tensor table);

/// Whether the weights of a model can be packed for inference (backend/ops/packed_gemm.h): on the CPU, in f32
/// or bf16.
bool can_pack(const Context& context, const ParameterStore& store);

/// Packs all weights that are multiplied and frees their memory: the store then holds a model for inference.
/// Earlier views of its values and models on it are invalid. Requires can_pack() and a packing whose
/// factor_dtype() is the store's: that of its dtype, or int8 for f32.
void pack_parameters(Context& context, const TransformerIds& ids, ParameterStore& store, Packing packing);

/// A packed store with the present values of `store`. Requires the same.
ParameterStore packed_copy(Context& context, const TransformerIds& ids, const ParameterStore& store,
                           Packing packing);

}  // namespace ventris
