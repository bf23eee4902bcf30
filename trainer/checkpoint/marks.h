// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/text/tokenizer.h"
#include "model/packed_pairs.h"

namespace ventris {

inline Marks marks_of(const data::TokenizerPair& tokenizers) {
  return {.source_end_id = tokenizers.source().end_id(),
          .begin_id = tokenizers.target().begin_id(),
          .end_id = tokenizers.target().end_id()};
}

}  // namespace ventris
