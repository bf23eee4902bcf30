// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "model/transformer_config.h"

namespace ventris {

/// The shape of a model from the YAML text inside a Marian model ("special:model.yml"), with Marian's
/// positions, start and epsilon of LayerNorm; settings that it does not contain (dropout, longest sentence)
/// have our defaults. Unless all tables are one, source_vocab_size is that of the sources, also where both
/// vocabularies are one. output_bias: whether the file must have one, which may be of zeros. Throws
/// Error(kBadData), naming `origin` and the key, if it is damaged or describes a model that ours cannot
/// express.
TransformerConfig marian_config(const std::string& yaml, const std::string& origin);

/// The ids that a vocabulary of Marian, a map of YAML from tokens to ids, gives to our tokens, by our id:
/// `find` returns our id of a token, or -1. Throws Error(kBadData), naming `origin` and the line, for another
/// form, an unknown token, an id that is not below `tokens`, or a duplicate token or id; and unless all
/// `tokens` tokens are present. Takes 5 bytes a token and a small multiple of the text.
std::vector<int32_t> marian_token_ids(std::string_view yaml, const std::string& origin, int32_t tokens,
                                      const std::function<int32_t(std::string_view)>& find);

}  // namespace ventris
