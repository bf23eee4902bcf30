// SPDX-License-Identifier: Apache-2.0
#include "trainer/decayed_ranges.h"

#include <algorithm>

namespace ventris {
namespace {

/// Appends [begin, end), or makes the last range longer if it ends there.
void append(std::vector<FlatRange>& ranges, int64_t begin, int64_t end) {
  if (begin >= end) return;
  if (!ranges.empty() && ranges.back().begin + ranges.back().count == begin) {
    ranges.back().count += end - begin;
  } else {
    ranges.push_back({begin, end - begin});
  }
}

}  // namespace

std::vector<FlatRange> decayed_ranges(const ParameterStore& store, const OptimizerShard& shard) {
  std::vector<FlatRange> all;
  ParameterId last = -1;
  for (const LogicalParameter& parameter : store.logical()) {
    const ParameterId id = parameter.tensor;
    const Tensor gradient = store.gradient(id);
    if (id == last || !gradient || parameter.vector) continue;
    last = id;  // the parameters of a fused tensor follow one another
    for (int64_t row = 0; row < gradient.rows; ++row) {
      const int64_t first = store.gradient_begin(id) + row * gradient.stride;
      for (const ParameterStore::Columns& columns : store.trained_columns(id))
        append(all, first + columns.begin, first + columns.begin + columns.count);
    }
  }
  std::sort(all.begin(), all.end(), [](const FlatRange& a, const FlatRange& b) { return a.begin < b.begin; });
  std::vector<FlatRange> ours;
  for (const OptimizerShard::Range& part : shard.ranges()) {
    for (const FlatRange& range : all) {
      append(ours, std::max(range.begin, part.elements.begin),
             std::min(range.begin + range.count, part.elements.end));
    }
  }
  return ours;
}

}  // namespace ventris
