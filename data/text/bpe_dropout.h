// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "data/text/subword_model.h"
#include "data/text/subword_pieces.h"

// Private to data/.

namespace ventris::data {

/// BPE-dropout (Provilkov et al. 2020, section 3) as SentencePiece does it: neighbours that together are a
/// piece are joined, the best score first and then the leftmost; when its turn comes, a pair is left apart
/// with probability `dropout`, for good. 0 is the deterministic encoding.
std::unique_ptr<SubwordModel> bpe_dropout(const SubwordPieces& pieces, double dropout);

}  // namespace ventris::data
