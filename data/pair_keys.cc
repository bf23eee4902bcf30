// SPDX-License-Identifier: Apache-2.0
#include "data/pair_keys.h"

#include <xxhash.h>

#include "data/text/unicode.h"

namespace ventris::data {

std::string letters_of(std::string_view text) {
  std::u32string letters = unicode::lower(unicode::decode(text));
  std::erase_if(letters, [](char32_t c) {
    return unicode::is_space(c) || unicode::is_punctuation(c) || unicode::is_decimal_digit(c);
  });
  return letters.empty() ? std::string(text) : unicode::encode(letters);
}

TextKey key_of_pair(std::string_view source, std::string_view target, Likeness likeness) {
  const auto compared = [likeness](std::string_view text) {
    return likeness == Likeness::kNear ? letters_of(text) : std::string(text);
  };
  const std::string text = compared(source) + "\n" + compared(target);  // a line feed is in no line
  const XXH128_hash_t digest = XXH3_128bits(text.data(), text.size());
  return {digest.high64, digest.low64};
}

TextKey key_of_line(std::string_view line, Likeness likeness) {
  return key_of_pair(line, "", likeness);
}

}  // namespace ventris::data
