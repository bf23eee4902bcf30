// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ventris::data {

/// Text functions shared by the metrics, on UTF-8 bytes.

/// Bytes of the white space character (as Python's str.split understands it) that begins at `at`, or 0.
size_t space_length(std::string_view text, size_t at);
/// Without white space at the end, as str.rstrip.
std::string_view strip_end(std::string_view text);
/// Without white space at both ends, as str.strip.
std::string_view strip(std::string_view text);
/// Appends the words of `text` as views of it, as str.split().
void split_words(std::string_view text, std::vector<std::string_view>& words);
/// As str.lower.
std::string lower_text(std::string_view text);
void replace_all(std::string& text, std::string_view from, std::string_view to);
/// &quot; &amp; &lt; &gt; in that order.
void replace_entities(std::string& text);

/// The two halves of the tokenizer of mteval-v13a, shared by sacreBLEU's 13a and zh tokenizers: spaces
/// around ASCII punctuation other than ' . , - and around spaces; then periods and commas that are not inside
/// numbers, and a dash after a digit. `scratch` is overwritten.
void separate_punctuation(std::string& text, std::string& scratch);
void separate_numbers(std::string& text, std::string& scratch);

/// Numbers the distinct words of one sentence and its references from 0.
class WordNumbers {
 public:
  void clear();
  int32_t number(std::string_view word);  // the word's text must outlive the numbering

 private:
  struct Slot {
    uint64_t hash = 0;
    int32_t number = -1;
  };
  void grow();

  std::vector<Slot> slots_;
  std::vector<std::string_view> words_;
};

}  // namespace ventris::data
