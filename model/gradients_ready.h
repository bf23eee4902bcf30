#pragma once

#include <cstdint>
#include <functional>

namespace ventris {

/// Told during backward that the gradients of all elements at or after `begin` of the flat buffer are
/// complete for this micro-batch. Called with falling values, at the end with 0.
using GradientsReady = std::function<void(int64_t begin)>;

}  // namespace ventris
