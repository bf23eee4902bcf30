// SPDX-License-Identifier: Apache-2.0
#include "trainer/files/png.h"

#include <zlib.h>

#include <string_view>

#include "backend/error.h"

namespace ventris {
namespace {

std::string big_endian(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>((value >> shift) & 0xFF);
  return bytes;
}

/// The length of the data, the type, the data, and the CRC-32 of type and data.
std::string chunk(std::string_view type, std::string_view data) {
  const std::string checked = std::string(type) + std::string(data);
  const uLong crc =
      ::crc32(0, reinterpret_cast<const Bytef*>(checked.data()), static_cast<uInt>(checked.size()));
  return big_endian(static_cast<uint32_t>(data.size())) + checked + big_endian(static_cast<uint32_t>(crc));
}

}  // namespace

std::string grey_png(const std::vector<uint8_t>& pixels, int64_t height, int64_t width) {
  VENTRIS_CHECK(height > 0 && width > 0 && static_cast<int64_t>(pixels.size()) == height * width,
                "{} pixels are not {} x {}", pixels.size(), height, width);
  std::string lines;  // each begins with its filter, none
  for (int64_t y = 0; y < height; ++y) {
    lines += '\0';
    lines.append(reinterpret_cast<const char*>(pixels.data()) + y * width, static_cast<size_t>(width));
  }
  uLongf bytes = ::compressBound(lines.size());
  std::string packed(bytes, '\0');
  const int result = ::compress2(reinterpret_cast<Bytef*>(packed.data()), &bytes,
                                 reinterpret_cast<const Bytef*>(lines.data()), lines.size(), Z_BEST_SPEED);
  VENTRIS_CHECK(result == Z_OK, "zlib returned {}", result);
  packed.resize(bytes);
  // 8 bits a sample, grey; deflate, the only filter method, not interlaced
  const std::string head = big_endian(static_cast<uint32_t>(width)) +
                           big_endian(static_cast<uint32_t>(height)) + std::string("\x08\0\0\0\0", 5);
  return "\x89PNG\r\n\x1A\n" + chunk("IHDR", head) + chunk("IDAT", packed) + chunk("IEND", "");
}

}  // namespace ventris
