// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ventris {

/// order: [rows] the rows of `index`, sorted by (index, row), as embedding_backward needs them on CUDA; an
/// index less than 0 comes last. In host memory. `room` keeps memory from call to call. Time: linear.
void order_rows(std::span<const int32_t> index, std::span<int32_t> order, std::vector<int32_t>& room);
std::vector<int32_t> order_of_rows(std::span<const int32_t> index);

}  // namespace ventris
