// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

// Private to data/.

namespace ventris::data {

/// Decompresses a part of a file: a member of gzip, a stream of xz or a frame of zstd.
class Decompressor {
 public:
  struct Step {
    size_t taken = 0;
    size_t written = 0;
    bool ended = false;      // the part is complete
    std::string fault = {};  // why it cannot be read, or empty
  };

  virtual ~Decompressor() = default;
  /// Takes bytes from `in` and writes to `out` until one of them is used up or the part ends. Throws
  /// std::bad_alloc.
  virtual Step step(std::span<const unsigned char> in, std::span<char> out) = 0;
};

/// A form of compressed data, known by its first bytes.
struct Compression {
  const char* name;  // for messages
  std::string_view magic;
  std::unique_ptr<Decompressor> (*make)();
};

inline constexpr size_t kLongestMagic = 6;

/// gzip, xz and zstd, which also begins with a frame without text, as parallel writers do: the first byte of
/// its magic may be 0x50 to 0x5f.
std::span<const Compression> compressions();

}  // namespace ventris::data
