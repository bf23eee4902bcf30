// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "backend/ops/activation.h"

namespace ventris {

/// Which of the three tables of a model are one: all, as in the paper (section 3.4); those of the decoder,
/// its embedding and the output layer; or none.
enum class Tie { kAll, kDecoder, kNone };

const char* name_of(Tie tie);  // all, decoder, none
std::optional<Tie> tie_named(std::string_view name);

/// The shape of a Transformer (section 3 and table 3 of the paper). Defaults are the base model.
struct TransformerConfig {
  int encoder_layers = 6;
  int decoder_layers = 6;
  int d_model = 512;
  int d_ff = 2048;
  int heads = 8;
  int64_t vocab_size = 37000;       // tokens of the vocabulary of targets; of sources too if they share it
  bool pre_norm = false;            // LayerNorm before each sublayer, and once after the last layer
  bool learned_positions = false;   // otherwise sinusoids
  int max_positions = 1024;         // longest sentence, with its end mark
  float dropout = 0.1F;             // sublayer outputs and embedding sums
  float attention_dropout = 0.1F;   // attention weights
  float activation_dropout = 0.0F;  // hidden layers of feed-forward sublayers, after the activation
  float label_smoothing = 0.1F;
  float layer_norm_epsilon = 1e-5F;
  int64_t zero_token = -1;        // a token whose embedding stays zero (the begin mark, as in Marian), or -1
  bool marian_positions = false;  // sinusoids of Marian's frequencies
  bool zero_start = false;        // the decoder starts with the position alone, without the begin mark
  bool output_bias = false;       // a bias for every token in the output layer
  Activation activation = Activation::kRelu;  // of the feed-forward layers
  Tie tie = Tie::kAll;
  int64_t source_vocab_size = 0;  // tokens of the vocabulary of sources; 0: that of targets

  int d_head() const { return d_model / heads; }
  int64_t source_vocab() const { return source_vocab_size > 0 ? source_vocab_size : vocab_size; }
  /// Rows of a table in memory: the vocabulary padded to a multiple of 128. Padding is never predicted.
  int64_t padded_vocab() const { return padded(vocab_size); }
  int64_t padded_source_vocab() const { return padded(source_vocab()); }
  /// Throws Error(kBadConfiguration) naming the option, its value and what is allowed.
  void validate() const;

  bool operator==(const TransformerConfig&) const = default;

 private:
  static int64_t padded(int64_t rows) { return (rows + 127) / 128 * 128; }
};

/// What a model keeps of a forward pass for the backward pass: nothing, for inference; all activations; or of
/// every layer its input only, from which backward computes the others again (Chen et al. 2016, "Training
/// Deep Nets with Sublinear Memory Cost", section 4.1). The masks of dropout are functions of their keys, and
/// products of one shape always sum alike, so that the results are the same bits.
enum class KeptActivations { kNone, kAll, kLayerInputs };

}  // namespace ventris
