// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "data/corpus.h"

// Private to data/.

namespace ventris::data {

/// Reads all pairs of a part in parallel threads: their offsets, ids and weights, and whether together they
/// are what the part says. Throws DataError kBadData, naming `path` and the part.
void check_part(const SentencePairs& pairs, const CorpusPart& part, const std::string& path, int threads);

}  // namespace ventris::data
