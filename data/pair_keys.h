// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>

#include "data/prepare.h"

// Private to data/: which lines and pairs have the same text.

namespace ventris::data {

/// A digest of a text, or with Likeness::kNear of its letters.
struct TextKey {
  uint64_t high = 0;
  uint64_t low = 0;
  bool operator==(const TextKey&) const = default;
};

TextKey key_of_pair(std::string_view source, std::string_view target, Likeness likeness);
TextKey key_of_line(std::string_view line, Likeness likeness);
/// The text in lower case without punctuation, digits and spaces; if nothing remains, the text itself.
std::string letters_of(std::string_view text);

struct TextKeyHash {
  size_t operator()(const TextKey& key) const { return key.low; }
};
using KeySet = std::unordered_set<TextKey, TextKeyHash>;

}  // namespace ventris::data
