// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ventris {

/// Whether this build has the CUDA side. VENTRIS_HAS_CUDA is defined only for backend and comm: the other
/// folders compile to the same code with and without CUDA.
constexpr bool kHasCuda = VENTRIS_HAS_CUDA != 0;

}  // namespace ventris
