// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

// Private to data/.

namespace ventris::data {

/// Calls work(piece) for each of `pieces` on `threads` threads, and returns when all are done. If pieces
/// fail, the remaining ones are not begun, and the error of the first of those that failed is thrown.
void parallel_for(int64_t pieces, int threads, const std::function<void(int64_t)>& work);

}  // namespace ventris::data
