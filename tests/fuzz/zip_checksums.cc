// SPDX-License-Identifier: Apache-2.0
#include <zlib.h>

#include <cstdint>
#include <cstring>

#include "tests/fuzz/digests.h"

// Places of the fields as in PKWARE's APPNOTE.TXT, section 4.3.

namespace ventris::fuzz {
namespace {

uint32_t number(const std::string& bytes, size_t at, size_t size) {
  uint32_t value = 0;
  std::memcpy(&value, &bytes[at], size);
  return value;
}

/// CRC-32 of an entry, unpacked without memory for the whole of it; 0 where it cannot be unpacked.
uint32_t checksum(const std::string& packed, bool deflated) {
  const auto* data = reinterpret_cast<const Bytef*>(packed.data());
  if (!deflated) return static_cast<uint32_t>(crc32_z(0, data, packed.size()));
  z_stream stream = {};
  stream.next_in = const_cast<Bytef*>(data);
  stream.avail_in = static_cast<uInt>(packed.size());
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return 0;
  uLong sum = 0;
  Bytef buffer[4096];
  for (int status = Z_OK; status == Z_OK;) {
    stream.next_out = buffer;
    stream.avail_out = sizeof(buffer);
    status = inflate(&stream, Z_NO_FLUSH);
    sum = crc32_z(sum, buffer, sizeof(buffer) - stream.avail_out);
    if (status == Z_OK && stream.avail_out == sizeof(buffer)) break;
  }
  inflateEnd(&stream);
  return static_cast<uint32_t>(sum);
}

}  // namespace

std::string with_right_zip_checksums(std::string_view bytes) {
  constexpr size_t kCentral = 46;
  constexpr size_t kLocal = 30;
  constexpr int kMaxEntries = 16;
  std::string right(bytes);
  int entries = 0;
  for (size_t at = right.find("PK\1\2"); at != std::string::npos && entries < kMaxEntries;
       at = right.find("PK\1\2", at + 1), ++entries) {
    if (right.size() - at < kCentral) break;
    const size_t local = number(right, at + 42, 4);
    const size_t packed = number(right, at + 20, 4);
    if (right.size() < kLocal || local > right.size() - kLocal) continue;
    const size_t data = local + kLocal + number(right, local + 26, 2) + number(right, local + 28, 2);
    if (data > right.size() || packed > right.size() - data) continue;
    const uint32_t sum = checksum(right.substr(data, packed), number(right, at + 10, 2) == 8);
    std::memcpy(&right[at + 16], &sum, sizeof(sum));
  }
  return right;
}

}  // namespace ventris::fuzz
