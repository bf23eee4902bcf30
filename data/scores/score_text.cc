// SPDX-License-Identifier: Apache-2.0
#include "data/scores/score_text.h"

#include <xxhash.h>

#include <algorithm>
#include <array>

#include "data/text/unicode.h"

namespace ventris::data {
namespace {

constexpr std::array<bool, 256> make_table(bool (*member)(unsigned char)) {
  std::array<bool, 256> table{};
  for (int c = 0; c < 256; ++c) table[c] = member(static_cast<unsigned char>(c));
  return table;
}

constexpr bool is_digit(unsigned char c) {
  return c >= '0' && c <= '9';
}
constexpr bool is_period_or_comma(unsigned char c) {
  return c == '.' || c == ',';
}

constexpr auto kSeparated = make_table([](unsigned char c) {
  return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') ||
         (c >= '(' && c <= '+') || (c >= ':' && c <= '@') || c == '/';
});
/// ASCII white space and the first bytes of other white space characters.
constexpr auto kMayBeSpace = make_table([](unsigned char c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0xC2 || c == 0xE1 || c == 0xE2 ||
         c == 0xE3;
});

unsigned char byte_at(std::string_view text, size_t i) {
  return static_cast<unsigned char>(text[i]);
}

/// re.sub of a pattern of two characters, the one at `at` and the next: writes `text` with matches separated
/// by spaces. A match takes two bytes, so that matches do not overlap; the first or last byte of a multi-byte
/// character represents the whole character; its other bytes match nothing.
template <typename First, typename Second>
void separate_pairs(const std::string& text, std::string& out, First&& first, Second&& second,
                    std::string_view before, std::string_view after) {
  out.clear();
  size_t copied = 0;
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    if (!first(byte_at(text, i)) || !second(byte_at(text, i + 1))) continue;
    out.append(text, copied, i - copied);
    out.append(before);
    out.push_back(text[i]);
    out.push_back(' ');
    out.push_back(text[i + 1]);
    out.append(after);
    ++i;
    copied = i + 1;
  }
  out.append(text, copied);
}

}  // namespace

size_t space_length(std::string_view text, size_t at) {
  if (!kMayBeSpace[byte_at(text, at)]) return 0;
  char32_t c = 0;
  const size_t length = unicode::decode_one(text, at, c);
  return length > 0 && unicode::is_space(c) ? length : 0;
}

std::string_view strip_end(std::string_view text) {
  for (bool found = true; found;) {
    found = false;
    for (size_t length = 1; length <= 3 && length <= text.size() && !found; ++length) {
      if (space_length(text, text.size() - length) != length) continue;
      text.remove_suffix(length);
      found = true;
    }
  }
  return text;
}

std::string_view strip(std::string_view text) {
  while (!text.empty()) {
    const size_t length = space_length(text, 0);
    if (length == 0) break;
    text.remove_prefix(length);
  }
  return strip_end(text);
}

void split_words(std::string_view text, std::vector<std::string_view>& words) {
  size_t begin = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t length = kMayBeSpace[byte_at(text, i)] ? space_length(text, i) : 0;
    if (length == 0) {
      ++i;
      continue;
    }
    if (i > begin) words.push_back(text.substr(begin, i - begin));
    i += length;
    begin = i;
  }
  if (begin < text.size()) words.push_back(text.substr(begin));
}

std::string lower_text(std::string_view text) {
  return unicode::lower_utf8(text);
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

void replace_entities(std::string& text) {
  if (text.find('&') == std::string::npos) return;
  replace_all(text, "&quot;", "\"");
  replace_all(text, "&amp;", "&");
  replace_all(text, "&lt;", "<");
  replace_all(text, "&gt;", ">");
}

void separate_punctuation(std::string& text, std::string& scratch) {
  scratch.resize(text.size() * 3);
  char* out = scratch.data();
  for (const char c : text) {
    if (kSeparated[static_cast<unsigned char>(c)]) {
      *out++ = ' ';
      *out++ = c;
      *out++ = ' ';
    } else {
      *out++ = c;
    }
  }
  scratch.resize(static_cast<size_t>(out - scratch.data()));
  text.swap(scratch);
}

void separate_numbers(std::string& text, std::string& scratch) {
  const auto not_digit = [](unsigned char c) { return !is_digit(c); };
  if (text.find_first_of(".,") != std::string::npos) {
    separate_pairs(text, scratch, not_digit, is_period_or_comma, "", " ");
    separate_pairs(scratch, text, is_period_or_comma, not_digit, " ", "");
  }
  if (text.find('-') != std::string::npos) {
    separate_pairs(
        text, scratch, is_digit, [](unsigned char c) { return c == '-'; }, "", " ");
    text.swap(scratch);
  }
}

void WordNumbers::clear() {
  constexpr size_t kFewSlots = 256;
  if (slots_.size() > 16 * kFewSlots) slots_.clear();
  if (slots_.empty()) slots_.resize(kFewSlots);
  std::fill(slots_.begin(), slots_.end(), Slot{});
  words_.clear();
}

int32_t WordNumbers::number(std::string_view word) {
  if (2 * (words_.size() + 1) > slots_.size()) grow();
  const uint64_t hash = XXH3_64bits(word.data(), word.size());
  const size_t mask = slots_.size() - 1;
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    Slot& slot = slots_[i];
    if (slot.number < 0) {
      slot = {hash, static_cast<int32_t>(words_.size())};
      words_.push_back(word);
      return slot.number;
    }
    if (slot.hash == hash && words_[static_cast<size_t>(slot.number)] == word) return slot.number;
  }
}

void WordNumbers::grow() {
  std::vector<Slot> old(std::max<size_t>(256, 2 * slots_.size()));
  old.swap(slots_);
  const size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.number < 0) continue;
    size_t i = slot.hash & mask;
    while (slots_[i].number >= 0) i = (i + 1) & mask;
    slots_[i] = slot;
  }
}

}  // namespace ventris::data
