// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

// Private to data/.

namespace ventris::data {

/// Takes one compressed stream apart: a member of gzip, a stream of xz or a frame of zstd, of which a file
/// may have several.
class Decompressor {
 public:
  struct Step {
    size_t taken = 0;
    size_t written = 0;
    bool ended = false;      // the stream is complete
    std::string fault = {};  // why it cannot be read, or empty
  };

  virtual ~Decompressor() = default;
  /// Takes bytes from `in` and writes to `out` until one of them is used up or the stream ends. Throws
  /// std::bad_alloc.
  virtual Step step(std::span<const unsigned char> in, std::span<char> out) = 0;
  /// Begins another stream.
  virtual void restart() = 0;
};

/// A form of compressed data, known by its first bytes.
struct Compression {
  const char* name;  // for messages
  /// Whether bytes begin a stream, or could when more follow.
  bool (*begins)(std::string_view bytes);
  bool (*may_begin)(std::string_view bytes);
  std::unique_ptr<Decompressor> (*make)();
};

inline constexpr size_t kLongestMagic = 6;

/// gzip, xz and zstd.
std::span<const Compression> compressions();

}  // namespace ventris::data
