// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/corpus_arrays.h"

// Private to data/.

namespace ventris::data {

/// The arrays of a file of version 2 or 3: both sides of a pair beside each other. Reads no array. Throws
/// DataError kBadData.
CorpusArrays corpus_arrays_2(const CorpusFile& file);

}  // namespace ventris::data
