// SPDX-License-Identifier: Apache-2.0
#pragma once

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

/// A piece of a SentencePiece model. Types: 1 normal, 2 unknown, 3 a mark, 6 a byte.
inline std::string piece(const std::string& text, char type = 1) {
  return field(1, field(1, text) + std::string({3 << 3, type}));
}

inline const std::string& marks() {
  static const std::string text = piece("<unk>", 2) + piece("<s>", 3) + piece("</s>", 3);
  return text;
}

}  // namespace ventris::data
