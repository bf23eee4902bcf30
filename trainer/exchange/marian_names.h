#pragma once

#include <string>

namespace ventris {

constexpr const char* kMarianConfig = "special:model.yml";
constexpr const char* kMarianOutputBias = "decoder_ff_logit_out_b";

/// Marian's name of a logical parameter: "encoder/layers/0/self_attention/query/weight" is
/// "encoder_l1_self_Wq".
std::string marian_name(const std::string& logical_name, bool pre_norm);

}  // namespace ventris
