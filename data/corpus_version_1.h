// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/corpus_arrays.h"

// Private to data/.

namespace ventris::data {

/// The arrays of a file of version 1, which 0.1.0 and 0.2.0 wrote: each side has its own, of 4-byte ids.
/// Reads all offsets and ids: the file does not record the longest sentence. Throws DataError kBadData.
CorpusArrays corpus_arrays_1(const CorpusFile& file);

}  // namespace ventris::data
