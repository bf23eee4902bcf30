// SPDX-License-Identifier: Apache-2.0
#include <xxhash.h>

#include <cstdint>
#include <cstring>

#include "tests/fuzz/digests.h"

namespace ventris::fuzz {

std::string with_right_safetensors_digest(std::string_view bytes) {
  constexpr size_t kLengthBytes = 8;
  constexpr std::string_view kBefore = R"({"__metadata__":{"digest":")";
  constexpr size_t kDigits = 32;
  constexpr size_t kAt = kLengthBytes + kBefore.size();
  std::string right(bytes);
  if (right.size() < kAt + kDigits || right.compare(kLengthBytes, kBefore.size(), kBefore) != 0) return right;
  std::memset(&right[kAt], '0', kDigits);
  XXH128_canonical_t digest;
  XXH128_canonicalFromHash(&digest, XXH3_128bits(&right[kLengthBytes], right.size() - kLengthBytes));
  for (size_t i = 0; i < sizeof(digest.digest); ++i) {
    constexpr char kHexadecimal[] = "0123456789abcdef";
    right[kAt + 2 * i] = kHexadecimal[digest.digest[i] >> 4];
    right[kAt + 2 * i + 1] = kHexadecimal[digest.digest[i] & 15];
  }
  return right;
}

}  // namespace ventris::fuzz
