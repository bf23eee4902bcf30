#pragma once

namespace ventris {

/// Whether this build has the CUDA side. VENTRIS_HAS_CUDA is defined for backend and comm alone: the other
/// folders compile to the same code with and without CUDA.
constexpr bool kHasCuda = VENTRIS_HAS_CUDA != 0;

}  // namespace ventris
