// SPDX-License-Identifier: Apache-2.0
// Makes the checksums in an HDF5 file right again after its bytes were changed. The layouts are those of the
// HDF5 file format specification, version 3.0, for addresses and lengths of eight bytes.

#include <xxhash.h>

#include <bit>
#include <cstdint>
#include <cstring>

#include "tests/fuzz/digests.h"

namespace ventris::fuzz {
namespace {

constexpr size_t kUserBlock = 512;
constexpr size_t kChecksum = 4;

/// Bob Jenkins' lookup3 hash of bytes, which the format uses everywhere.
uint32_t lookup3(const char* data, size_t size) {
  uint32_t a = 0xdeadbeef + static_cast<uint32_t>(size);
  uint32_t b = a;
  uint32_t c = a;
  const auto word = [](const char* from, size_t bytes) {
    uint32_t value = 0;
    std::memcpy(&value, from, bytes);
    return value;
  };
  while (size > 12) {
    a += word(data, 4);
    b += word(data + 4, 4);
    c += word(data + 8, 4);
    const auto turn = [](uint32_t& x, uint32_t& y, uint32_t& z, int bits) {
      x -= z;
      x ^= std::rotl(z, bits);
      z += y;
    };
    turn(a, b, c, 4);
    turn(b, c, a, 6);
    turn(c, a, b, 8);
    turn(a, b, c, 16);
    turn(b, c, a, 19);
    turn(c, a, b, 4);
    data += 12;
    size -= 12;
  }
  if (size == 0) return c;
  a += word(data, size < 4 ? size : 4);
  if (size > 4) b += word(data + 4, size < 8 ? size - 4 : 4);
  if (size > 8) c += word(data + 8, size - 8);
  const auto last = [](uint32_t& x, uint32_t y, int bits) {
    x ^= y;
    x -= std::rotl(y, bits);
  };
  last(c, b, 14);
  last(a, c, 11);
  last(b, a, 25);
  last(c, b, 16);
  last(a, c, 4);
  last(b, a, 14);
  last(c, b, 24);
  return c;
}

class File {
 public:
  explicit File(std::string_view bytes) : bytes_(bytes) {}

  std::string right() {
    if (bytes_.size() < kUserBlock + 48) return bytes_;
    sign(kUserBlock, 48);
    for (size_t at = kUserBlock; at + 8 < bytes_.size(); ++at) {
      if (is(at, "OHDR")) header(at);
      if (is(at, "BTHD")) tree(at);
      if (is(at, "FRHP")) sign(at, 146);
    }
    if (is(0, "VENT") && bytes_.compare(0, 8, "VENTRIS2") == 0) {
      append_tree();
      return bytes_;
    }
    const uint64_t length = bytes_.size() - kUserBlock;
    std::memcpy(&bytes_[0], "VENTRIS1", 8);
    std::memcpy(&bytes_[8], &length, 8);
    XXH128_canonical_t digest;
    XXH128_canonicalFromHash(&digest, XXH3_128bits(&bytes_[kUserBlock], length));
    std::memcpy(&bytes_[16], digest.digest, 16);
    std::memset(&bytes_[32], 0, kUserBlock - 32);
    return bytes_;
  }

 private:
  /// The digests of docs/formats.md after the content, in place of those that are there.
  void append_tree() {
    constexpr size_t kLeaf = 4096;
    constexpr size_t kLeavesOfABranch = 256;
    const auto digest = [](std::string_view of) {
      XXH128_canonical_t value;
      XXH128_canonicalFromHash(&value, XXH3_128bits(of.data(), of.size()));
      return std::string(reinterpret_cast<const char*>(value.digest), sizeof(value.digest));
    };
    uint64_t end = number(32, 8);
    if (end % kLeaf != 0 || end < kLeaf || end > bytes_.size())
      end = (bytes_.size() + kLeaf - 1) / kLeaf * kLeaf;
    bytes_.resize(end, '\0');
    std::string leaves;
    for (size_t at = 0; at < end; at += kLeaf) {
      const size_t begin = at == 0 ? kUserBlock : at;
      leaves += digest(std::string_view(bytes_).substr(begin, at + kLeaf - begin));
    }
    std::string branches;
    for (size_t at = 0; at < leaves.size(); at += kLeavesOfABranch * 16)
      branches += digest(std::string_view(leaves).substr(at, kLeavesOfABranch * 16));
    const uint64_t shape[] = {end, kLeaf, kLeavesOfABranch};
    const std::string root =
        digest(branches + std::string(reinterpret_cast<const char*>(shape), sizeof(shape)));
    bytes_ += leaves + branches;
    const uint64_t length = bytes_.size() - kUserBlock;
    std::memset(&bytes_[8], 0, kUserBlock - 8);
    std::memcpy(&bytes_[8], &length, sizeof(length));
    std::memcpy(&bytes_[16], root.data(), root.size());
    std::memcpy(&bytes_[32], &end, sizeof(end));
  }

  bool is(size_t at, const char* signature) const { return std::memcmp(&bytes_[at], signature, 4) == 0; }
  uint64_t number(size_t at, size_t size) const {
    uint64_t value = 0;
    if (at + size <= bytes_.size()) std::memcpy(&value, &bytes_[at], size);
    return value;
  }
  /// Writes the checksum at the end of a structure of `size` bytes.
  void sign(size_t at, uint64_t size) {
    if (size <= kChecksum || at > bytes_.size() || size > bytes_.size() - at) return;
    const uint32_t sum = lookup3(&bytes_[at], size - kChecksum);
    std::memcpy(&bytes_[at + size - kChecksum], &sum, kChecksum);
  }

  /// An object header of version 2 and the blocks that continue it.
  void header(size_t at) {
    const uint64_t flags = number(at + 5, 1);
    const size_t width = size_t{1} << (flags & 3);
    const size_t size_at = at + 6 + ((flags & 0x20) != 0 ? 16 : 0) + ((flags & 0x10) != 0 ? 4 : 0);
    const uint64_t size = number(size_at, width);
    if (size > bytes_.size()) return;
    continuations(size_at + width, size, flags, 0);
    sign(at, size_at + width + size + kChecksum - at);
  }

  void continuations(size_t begin, uint64_t size, uint64_t flags, int depth) {
    constexpr int kMaxDepth = 4;
    constexpr uint64_t kContinuation = 16;
    const size_t head = (flags & 4) != 0 ? 6 : 4;
    for (size_t at = begin; at + head <= begin + size && at + head <= bytes_.size();) {
      const uint64_t length = number(at + 1, 2);
      if (number(at, 1) == kContinuation && length == 16 && depth < kMaxDepth) {
        const uint64_t block = number(at + head, 8) + kUserBlock;
        const uint64_t block_size = number(at + head + 8, 8);
        if (block < bytes_.size() && block_size >= 8 && block_size <= bytes_.size() - block) {
          continuations(block + 4, block_size - 8, flags, depth + 1);
          sign(block, block_size);
        }
      }
      at += head + length;
    }
  }

  /// The head of a B-tree of version 2, and its root where that is a leaf.
  void tree(size_t at) {
    const uint64_t leaf = number(at + 16, 8) + kUserBlock;
    sign(at, 38);
    if (number(at + 12, 2) == 0 && leaf < bytes_.size())
      sign(leaf, 6 + number(at + 10, 2) * number(at + 24, 2) + kChecksum);
  }

  std::string bytes_;
};

}  // namespace

std::string with_right_digests(std::string_view bytes) {
  return File(bytes).right();
}

}  // namespace ventris::fuzz
