// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "backend/flat_range.h"
#include "model/parameters.h"
#include "trainer/optimizer_shard.h"

namespace ventris {

/// The elements of trained_values() that --weight-decay moves and that a shard updates, in order: those of
/// matrices (embeddings and learned positions among them), but of none that is frozen. The store must be
/// allocated with gradients.
std::vector<FlatRange> decayed_ranges(const ParameterStore& store, const OptimizerShard& shard);

}  // namespace ventris
