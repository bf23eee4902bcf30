// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "backend/cpu/vector.h"
#include "backend/device/context.h"
#include "backend/ops/packed_gemm.h"

/// What the products with a packed matrix share, of floating point and of integers: the panels, and the
/// partition of a product into tasks.
namespace ventris {

inline constexpr int64_t kLine = 64;  // bytes of a line of the cache

template <typename T>
inline constexpr int64_t kOfLine = kLine / static_cast<int64_t>(sizeof(T));

inline constexpr int64_t kPackedPanel = kMaxVectors * kLanes<float>;  // columns of a panel

/// Rows between what is copied to panels and what is fetched for later.
inline constexpr int64_t kFetchedRows = 4;

/// Interleaved rows of b: a register holds a whole number of sums.
template <typename T>
inline constexpr int64_t kPackedStep = 4 / static_cast<int64_t>(sizeof(T));

template <typename T>
constexpr int64_t packed_panel_size(int64_t depth) {
  return (depth + kPackedStep<T> - 1) / kPackedStep<T> * kPackedStep<T> * kPackedPanel;
}

/// The element of row k and the first column of a panel.
template <typename T>
T* packed_at(const PackedMatrix& packed, int64_t panel, int64_t k) {
  return static_cast<T*>(packed.data) + panel * packed_panel_size<T>(packed.rows) +
         k / kPackedStep<T> * kPackedStep<T> * kPackedPanel + k % kPackedStep<T>;
}

/// Whether a block of rows fetches what the next one reads. With AVX-512 fetching takes longer than the wait
/// that it saves (docs/results.md).
inline constexpr bool kFetchesAhead = kVectorBytes == 32;

/// Whether the last of several blocks of rows fetches what comes after the part of the panel that all of them
/// multiply by: its next part, or the next panel. The weights of a step of a search come from memory or the
/// L3 cache, and the first block of rows waits for them.
constexpr bool is_to_fetch(int64_t block, int64_t blocks) {
  return kFetchesAhead && block > 0 && block + 1 == blocks;
}

/// Calls task(row, rows, panel) for [row, row + rows) of all `m` rows and every panel, at most `task_rows`
/// rows at a time, on all threads or, if the product `is_small`, on the calling one.
template <int kBlockRows, typename Task>
void for_panels(Context& context, int64_t m, int64_t panels, int64_t task_rows, bool is_small, Task&& task) {
  const int64_t threads = context.pool().threads();
  // Tasks of few rows only if there would otherwise be too few tasks for the threads.
  const int64_t wanted =
      std::max((m + task_rows - 1) / task_rows, std::min(m / kBlockRows, 4 * threads / panels));
  const int64_t parts = std::max<int64_t>(wanted, 1);
  const auto run = [&](int64_t index, int) {
    const int64_t part = index / panels;
    const int64_t row = m * part / parts;
    task(row, m * (part + 1) / parts - row, index % panels);
  };
  if (threads == 1 || is_small) {
    for (int64_t index = 0; index < parts * panels; ++index) run(index, 0);
  } else {
    context.pool().for_each(parts * panels, run);
  }
}

}  // namespace ventris
