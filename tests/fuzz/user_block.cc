#include <xxhash.h>

#include <cstdint>
#include <cstring>

#include "tests/fuzz/harness.h"

namespace ventris::fuzz {

std::string with_right_digest(std::string_view bytes) {
  constexpr size_t kUserBlock = 512;
  std::string right(bytes);
  if (right.size() < kUserBlock) return right;
  const uint64_t length = right.size() - kUserBlock;
  XXH128_canonical_t digest;
  XXH128_canonicalFromHash(&digest, XXH3_128bits(&right[0] + kUserBlock, length));
  std::memset(&right[0], 0, kUserBlock);
  std::memcpy(&right[0], "VENTRIS1", 8);
  std::memcpy(&right[8], &length, 8);
  std::memcpy(&right[16], digest.digest, 16);
  return right;
}

}  // namespace ventris::fuzz
