#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "model/transformer_config.h"

namespace ventris {

/// The shape of a model from the YAML text inside a Marian model ("special:model.yml"), with Marian's
/// positions, start and epsilon of LayerNorm; what that does not tell, dropout and the longest sentence, has
/// our defaults. output_bias is left to the caller. Throws Error(kBadData), naming `origin` and the key,
/// where it is damaged or describes what our model is not.
TransformerConfig marian_config(const std::string& yaml, const std::string& origin);

/// The ids that a vocabulary of Marian, `token: id` lines of YAML, gives to our tokens, by our id: `find`
/// gives that of a token, or -1 for one that we do not have. Throws Error(kBadData), naming `origin` and the
/// line, for another form, an unknown token, an id that is not below `tokens`, or a token or id that is given
/// twice; and unless all `tokens` tokens are there. Takes 5 bytes a token and one line besides the text.
std::vector<int32_t> marian_token_ids(std::string_view yaml, const std::string& origin, int32_t tokens,
                                      const std::function<int32_t(std::string_view)>& find);

}  // namespace ventris
