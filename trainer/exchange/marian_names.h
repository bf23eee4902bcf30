// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ventris {

constexpr const char* kMarianConfig = "special:model.yml";
/// Before the names of entries that are no parameters.
constexpr const char* kMarianSpecial = "special:";
constexpr const char* kMarianOutputBias = "decoder_ff_logit_out_b";

/// The output layer's own weights, [tokens, d_model]; of old versions, [d_model, tokens], under the other
/// name.
constexpr const char* kMarianOutputWeight = "decoder_ff_logit_out_Wt";
constexpr const char* kMarianTransposedOutputWeight = "decoder_ff_logit_out_W";
/// Files beside a model: the vocabulary of both sides, or one of each; and SentencePiece models.
constexpr const char* kMarianVocabulary = "vocab.yml";
constexpr const char* kMarianSourceVocabulary = "source.vocab.yml";
constexpr const char* kMarianTargetVocabulary = "target.vocab.yml";
constexpr const char* kMarianSourceTokenizer = "source.spm";
constexpr const char* kMarianTargetTokenizer = "target.spm";

/// Marian's name of a logical parameter: "encoder/layers/0/self_attention/query/weight" is
/// "encoder_l1_self_Wq".
std::string marian_name(const std::string& logical_name, bool pre_norm);

}  // namespace ventris
