// SPDX-License-Identifier: Apache-2.0
#include "data/pair_keys.h"

#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "data/text/unicode.h"

namespace ventris::data {

namespace {

constexpr size_t kFirstPlaces = 64;

XXH128_hash_t digest_of_pair(std::string_view a, std::string_view b) {
  std::string text;
  text.reserve(a.size() + b.size() + 1);
  text.append(a);
  text.push_back('\n');  // in no line
  text.append(b);
  return XXH3_128bits(text.data(), text.size());
}

TextKey exact_key(std::string_view a, std::string_view b) {
  const XXH128_hash_t digest = digest_of_pair(a, b);
  // Zero is a free place of a table.
  return {digest.high64, digest.high64 == 0 && digest.low64 == 0 ? 1 : digest.low64};
}

TextKey near_key(std::string_view a, std::string_view b) {
  const XXH128_hash_t digest = digest_of_pair(letters_of(a), letters_of(b));
  const uint64_t exact = XXH3_64bits_withSeed(a.data(), a.size(), XXH3_64bits(b.data(), b.size()));
  return {digest.high64 == 0 ? 1 : digest.high64, (digest.low64 & ~uint64_t{0xFFFFFFFF}) | exact >> 32};
}

}  // namespace

std::string letters_of(std::string_view text) {
  const auto is_dropped = [](char32_t c) {
    return unicode::is_space(c) || unicode::is_punctuation(c) || unicode::is_decimal_digit(c);
  };
  std::string letters;
  const std::string lower = unicode::lower_utf8(text);
  for (size_t at = 0; at < lower.size();) {
    char32_t c = 0;
    const size_t length = std::max<size_t>(unicode::decode_one(lower, at, c), 1);
    if (!is_dropped(c)) letters.append(lower, at, length);
    at += length;
  }
  return letters.empty() ? std::string(text) : letters;
}

TextKey key_of_pair(std::string_view source, std::string_view target, Likeness likeness) {
  return likeness == Likeness::kNear ? near_key(source, target) : exact_key(source, target);
}

TextKey key_of_line(std::string_view line, Likeness likeness) {
  return key_of_pair(line, "", likeness);
}

size_t KeySet::place_of(const Table& table, TextKey key) const {
  const size_t places = table.places.size();
  // The upper bits choose the table; these, as a fraction, the place.
  const uint64_t fraction = (key.high ^ key.low >> 32) & 0xFFFFFFFF;
  for (size_t place = fraction * places >> 32;; place = place + 1 == places ? 0 : place + 1) {
    const TextKey& other = table.places[place];
    const bool is_free = other.high == 0 && other.low == 0;
    if (is_free || (other.high == key.high && compared_low(other) == compared_low(key))) return place;
  }
}

void KeySet::grow(Table& table) const {
  Table larger;
  larger.places.resize(std::max(kFirstPlaces, table.places.size() * 5 / 4));
  larger.used = table.used;
  for (const TextKey& key : table.places) {
    if (key.high != 0 || key.low != 0) larger.places[place_of(larger, key)] = key;
  }
  table = std::move(larger);
}

std::optional<TextKey> KeySet::find_or_add(TextKey key) {
  Table& table = tables_[key.high >> 56];
  constexpr size_t kFullTwentieths = 17;
  if (20 * table.used >= kFullTwentieths * table.places.size()) grow(table);
  TextKey& place = table.places[place_of(table, key)];
  if (place.high != 0 || place.low != 0) return place;
  place = key;
  ++table.used;
  return std::nullopt;
}

bool KeySet::contains(TextKey key) const {
  const Table& table = tables_[key.high >> 56];
  if (table.used == 0) return false;
  const TextKey& place = table.places[place_of(table, key)];
  return place.high != 0 || place.low != 0;
}

size_t KeySet::size() const {
  size_t size = 0;
  for (const Table& table : tables_) size += table.used;
  return size;
}

}  // namespace ventris::data
