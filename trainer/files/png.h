// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ventris {

/// A PNG file (RFC 2083) of a picture in grey with 8 bits a pixel. `pixels`: [height, width], 0 is black.
std::string grey_png(const std::vector<uint8_t>& pixels, int64_t height, int64_t width);

}  // namespace ventris
