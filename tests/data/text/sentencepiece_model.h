// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

// SentencePiece models made by hand.

namespace ventris::data {

/// A field of a protocol buffer.
inline std::string field(int number, const std::string& bytes) {
  std::string text(1, static_cast<char>(number << 3 | 2));
  size_t size = bytes.size();
  for (; size > 127; size >>= 7) text += static_cast<char>((size & 127) | 128);
  return text + static_cast<char>(size) + bytes;
}

/// A field of four bytes, and one of an integer.
inline std::string field(int number, float value) {
  std::string text(1 + sizeof(value), static_cast<char>(number << 3 | 5));
  std::memcpy(text.data() + 1, &value, sizeof(value));
  return text;
}
inline std::string flag(uint64_t number, bool value) {
  const uint64_t key = number << 3;
  const std::string head = key < 128 ? std::string(1, static_cast<char>(key))
                                     : std::string{static_cast<char>(key | 128), static_cast<char>(key >> 7)};
  return head + static_cast<char>(value ? 1 : 0);
}

/// A piece of a SentencePiece model. Types: 1 normal, 2 unknown, 3 a mark, 6 a byte.
inline std::string piece(const std::string& text, char type = 1) {
  return field(1, field(1, text) + std::string({3 << 3, type}));
}

inline const std::string& marks() {
  static const std::string text = piece("<unk>", 2) + piece("<s>", 3) + piece("</s>", 3);
  return text;
}

}  // namespace ventris::data
