#pragma once

#include <vector>

#include "model/parameters.h"
#include "model/transformer_config.h"

namespace ventris {

/// The logical name of the bias of the output layer.
inline constexpr const char* kOutputBias = "output/bias";

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
  ParameterId embedding;              // [padded_vocab, d_model], shared by source, target and output
  ParameterId source_positions = -1;  // [max_positions, d_model] if learned
  ParameterId target_positions = -1;
  std::vector<EncoderLayerIds> encoder;
  NormIds encoder_norm = {-1, -1};  // pre-norm only
  LinearIds memory_key_value;  // [d_model, decoder_layers * 2 * d_model]: key then value of layer 0, of layer
                               // 1, ...
  std::vector<DecoderLayerIds> decoder;
  NormIds decoder_norm = {-1, -1};  // pre-norm only
  ParameterId output_bias = -1;     // [padded_vocab] if there is one
};

/// Declares all parameters of the model. Logical names:
///   embedding; source_positions and target_positions if learned;
///   encoder/layers/N/self_attention/{query,key,value,output}/{weight,bias};
///   encoder/layers/N/self_attention/norm/{gamma,beta};
///   encoder/layers/N/feed_forward/{inner,outer}/{weight,bias};
///   encoder/layers/N/feed_forward/norm/{gamma,beta};
///   decoder/layers/N/... the same, and cross_attention/...;
///   encoder/norm/{gamma,beta} and decoder/norm/{gamma,beta} in a pre-norm model;
///   output/bias with an output bias.
TransformerIds declare_transformer(const TransformerConfig& config, ParameterStore& store);

/// The end of the embeddings at the begin of the gradients: backward completes their gradients last, all
/// at once, as the encoder's input adds to them. 0 if the store is not that of a Transformer.
int64_t end_of_embeddings(const ParameterStore& store);

/// If config.zero_word is a token, clears its row of `table`, the embedding or its gradient, which may be
/// empty.
void clear_zero_word(Context& context, const TransformerConfig& config, Tensor table);

}  // namespace ventris
