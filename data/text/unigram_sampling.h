// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "data/text/subword_model.h"
#include "data/text/subword_pieces.h"

// Private to data/.

namespace ventris::data {

/// Segmentations x of the whole lattice with probability proportional to P(x)^smoothing (Kudo 2018, section
/// 3.2 with l = infinity), by forward filtering and backward sampling. The same on every processor: the sums
/// use basic arithmetic alone.
std::unique_ptr<SubwordModel> unigram_sampling(const SubwordPieces& pieces, double smoothing);

}  // namespace ventris::data
