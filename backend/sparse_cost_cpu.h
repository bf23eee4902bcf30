// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/block_sums_cpu.h"
#include "backend/cache_size.h"
#include "backend/nonzero_cpu.h"
#include "backend/packed_layout_cpu.h"
#include "backend/sparse_lists_cpu.h"

/// When and how products leave out multiplications by zero. No choice changes a bit.
namespace ventris {

/// Sums of a row in registers: as many as it takes to wait for none of them.
inline constexpr int kGroupVectors = 8;
inline constexpr int kGroupPanels = kGroupVectors / kPanelVectors;
inline constexpr int64_t kGroup = kGroupPanels * kPackedPanel;

template <typename Body>
[[gnu::always_inline]] inline void each_vector(Body&& body) {
#pragma GCC unroll 8
  for (int v = 0; v < kGroupVectors; ++v) body(v);
}

/// Depth of the lists of a factor with this share of others than zero. Every row of a task is multiplied with
/// the same part of a group, which stays in the nearest cache beside sums and lists if it is short. Lists of
/// few elements are longer, as sums are read and written once for each.
inline int64_t list_steps(double density) {
  constexpr double kElements = 12.0;
  const int64_t near = level1_cache_bytes() * 3 / 4 / (kGroup * static_cast<int64_t>(sizeof(float)));
  const double few = kElements / std::max(density, kElements / static_cast<double>(kMostListSteps));
  const int64_t steps = std::max(near, static_cast<int64_t>(few));
  return std::clamp(steps / kLookedAt * kLookedAt, kLookedAt, kMostListSteps);
}

/// Whether it takes less time to leave out the zeros of a factor with this share of others, on `tasks`
/// threads instead of `threads`. In cycles for each of its elements, measured (docs/results.md): to look at
/// it, its part of the reading and writing of sums, and a multiple of a row, whose vectors come from the
/// cache, against two multiply-adds a cycle.
inline bool is_faster(double density, int64_t columns, int64_t tasks = 1, int64_t threads = 1) {
  constexpr double kLook = 1.5;
  constexpr double kOfSums = 0.12;
  constexpr double kMultiple = kVectorBytes == 64 ? 7.0 : 6.0;
  constexpr double kOfPeak = 0.9;
  const int64_t groups = (columns + kGroup - 1) / kGroup;
  const int64_t vectors = (columns + kPackedPanel - 1) / kPackedPanel * kPanelVectors;
  const double sparse = kLook + static_cast<double>(groups) * (kOfSums + density * kMultiple);
  const double full = static_cast<double>(vectors) / 2 / kOfPeak;
  return sparse * static_cast<double>(threads) < full * static_cast<double>(tasks);
}

}  // namespace ventris
