// SPDX-License-Identifier: Apache-2.0
#include "data/scores/score_text.h"

#include "data/text/unicode.h"

namespace ventris::data {

std::u32string_view rstrip(std::u32string_view text) {
  while (!text.empty() && unicode::is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::u32string_view> split_words(std::u32string_view text) {
  std::vector<std::u32string_view> words;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && !unicode::is_space(text[i])) continue;
    if (i > begin) words.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  return words;
}

}  // namespace ventris::data
