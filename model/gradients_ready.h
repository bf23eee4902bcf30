#pragma once

#include <cstdint>
#include <functional>

namespace ventris {

/// Callback during backward: the gradients of all elements at or after `begin` of the flat buffer are
/// complete for this micro-batch. Called with decreasing values, at the end with 0.
using GradientsReady = std::function<void(int64_t begin)>;

}  // namespace ventris
