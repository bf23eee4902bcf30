// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace ventris::data {

/// Insertions, deletions, substitutions and shifts of word sequences that turn the hypothesis into the
/// reference, found greedily: the best shift is applied until none improves the result.
int64_t translation_edits(const std::vector<int32_t>& hypothesis, const std::vector<int32_t>& reference);

}  // namespace ventris::data
