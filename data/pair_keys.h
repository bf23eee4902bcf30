// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/prepare.h"

// Private to data/: which lines and pairs have the same text.

namespace ventris::data {

/// A digest of a text, or with Likeness::kNear 96 bits of that of its letters and then 32 bits of the exact
/// one, which tell a near duplicate from an exact one.
struct TextKey {
  uint64_t high = 0;
  uint64_t low = 0;
};

TextKey key_of_pair(std::string_view source, std::string_view target, Likeness likeness);
TextKey key_of_line(std::string_view line, Likeness likeness);
/// The text in lower case without punctuation, digits and spaces; if nothing remains, the text itself.
std::string letters_of(std::string_view text);

/// A set of keys in 19 to 24 bytes each.
class KeySet {
 public:
  explicit KeySet(Likeness likeness) : likeness_(likeness) {}

  /// The key that is equal under the likeness; if there is none, adds this one and returns none.
  std::optional<TextKey> find_or_add(TextKey key);
  bool contains(TextKey key) const;
  size_t size() const;

 private:
  // Many small tables, so that only one at a time is held twice while it grows.
  static constexpr size_t kTables = 256;
  struct Table {
    std::vector<TextKey> places;  // zero: free
    size_t used = 0;
  };

  uint64_t compared_low(TextKey key) const {
    return likeness_ == Likeness::kNear ? key.low & ~uint64_t{0xFFFFFFFF} : key.low;
  }
  /// The place of the key, or the free one where it belongs.
  size_t place_of(const Table& table, TextKey key) const;
  void grow(Table& table) const;

  Likeness likeness_;
  std::array<Table, kTables> tables_;
};

}  // namespace ventris::data
