#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "model/transformer_config.h"

namespace ventris {

/// The shape of a model from the YAML text inside a Marian model ("special:model.yml"). zero_word is left to
/// the caller. Throws Error(kBadData), naming `origin` and the key, where it is damaged or describes what our
/// model is not.
TransformerConfig marian_config(const std::string& yaml, const std::string& origin);

using MarianVocabulary = std::map<std::string, int64_t>;

/// The words of a vocabulary of Marian, `word: id` lines of YAML. Throws Error(kBadData), naming `origin` and
/// the line, for another form, an id that is not below `words`, or one that is given twice.
MarianVocabulary marian_vocabulary(const std::string& yaml, const std::string& origin, int64_t words);

}  // namespace ventris
