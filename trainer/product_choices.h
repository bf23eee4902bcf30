// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

namespace ventris {

class Communicator;
class Context;
class Progress;

/// Settles the algorithms of matrix products on CUDA for a whole run (backend/ops/gemm_choices.h), before any
/// sum over the ranks. Rank 0 prefers those of `recorded`, which the checkpoint has, or "", and chooses the
/// others by time while it calls `compute`, a micro-batch of the run; all ranks take its choices, and choose
/// nothing later. Returns them for checkpoints; "" on the CPU. All ranks must call it. Warns of ranks, and of
/// a record, of another device or other libraries, for which the choices are not valid.
std::string settle_product_choices(Context& context, Communicator& communicator, const std::string& recorded,
                                   const std::function<void()>& compute, Progress& progress);

}  // namespace ventris
