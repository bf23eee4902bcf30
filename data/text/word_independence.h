// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "data/text/sentencepiece_format.h"

// Private to data/.

namespace ventris::data {

/// Whether a SentencePiece model encodes any line of valid UTF-8 without U+2581 as it encodes its
/// space-separated words one by one, with the ids concatenated; for unigram models, but for the rounding of
/// sums (CachedEncoder). False if that is not proved; word_independence.cc has the proof.
bool words_are_independent(std::string_view bytes);

/// Whether a SentencePiece model without user-defined pieces normalises any such line to its words normalised
/// one by one, each with U+2581 before it, whatever becomes tokens then: the first step of that proof.
bool words_are_normalised_apart(const SentencePieceModel& model);

}  // namespace ventris::data
