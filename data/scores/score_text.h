// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

// Private to data/ and the commands: text functions shared by the metrics and tokenizers.

namespace ventris::data {

/// Without white space (as of Python's str.split) at the end, as str.rstrip.
std::u32string_view rstrip(std::u32string_view text);
/// The words of `text` as views of it, as str.split().
std::vector<std::u32string_view> split_words(std::u32string_view text);

/// re.sub of a pattern of two character classes by "`before` \1 `between` \2 `after`": matches do not
/// overlap.
template <typename First, typename Second>
std::u32string separate_pairs(std::u32string_view text, First&& first, Second&& second,
                              std::u32string_view before, std::u32string_view between,
                              std::u32string_view after) {
  std::u32string result;
  result.reserve(text.size() + text.size() / 2);
  size_t i = 0;
  for (; i + 1 < text.size(); ++i) {
    if (!first(text[i]) || !second(text[i + 1])) {
      result.push_back(text[i]);
      continue;
    }
    result.append(before);
    result.push_back(text[i]);
    result.append(between);
    result.push_back(text[i + 1]);
    result.append(after);
    ++i;
  }
  if (i < text.size()) result.push_back(text[i]);
  return result;
}

/// Separates each character of a class by spaces.
template <typename Class>
std::u32string separate_single(std::u32string_view text, Class&& member) {
  std::u32string result;
  result.reserve(text.size() + text.size() / 2);
  for (const char32_t c : text) {
    if (member(c)) {
      result.append({U' ', c, U' '});
    } else {
      result.push_back(c);
    }
  }
  return result;
}

/// Replaces every occurrence, from left to right.
template <typename String>
void replace_all(String& text, const String& from, const String& to) {
  for (size_t at = text.find(from); at != String::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

}  // namespace ventris::data
