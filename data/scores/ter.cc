// SPDX-License-Identifier: Apache-2.0
#include "data/scores/ter.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <limits>

#include "data/error.h"
#include "data/scores/bleu.h"
#include "data/scores/ter_edits.h"
#include "data/text/unicode.h"

namespace ventris::data {
namespace {

bool is_asian_punctuation(char32_t c) {
  return c == 0x3001 || c == 0x3002 || (c >= 0x3008 && c <= 0x3011) || (c >= 0x3014 && c <= 0x301F) ||
         (c >= 0xFF61 && c <= 0xFF65) || c == 0x30FB || c == 0xFF0E || c == 0xFF0C || c == 0xFF1F ||
         c == 0xFF1A || c == 0xFF1B || c == 0xFF01 || c == 0xFF02 || c == 0xFF08 || c == 0xFF09;
}

/// Ideographs, strokes, radicals, compatibility forms; sacreBLEU's range for enclosed letters ends at U+3F22.
/// Its rules for kana match only at the beginning of a line, where the normalized text has a space.
bool stands_alone(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x31C0 && c <= 0x31EF) ||
         (c >= 0x2E80 && c <= 0x2EFF) || (c >= 0x3200 && c <= 0x3F22) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0xFE30 && c <= 0xFE4F) || is_asian_punctuation(c);
}

void normalize(std::string& text) {
  std::string scratch;
  replace_all(text, "\n-", "");
  replace_all(text, "\n", " ");
  replace_entities(text);
  text = ' ' + text + ' ';
  separate_punctuation(text, scratch);
  replace_all(text, "'s ", " 's ");
  separate_numbers(text, scratch);
}

/// `text` with the members of a class separated by spaces, or removed.
template <typename Class>
std::string separate_or_remove(std::string_view text, bool remove, Class&& member) {
  std::u32string result;
  for (const char32_t c : unicode::decode(text)) {
    if (!member(c)) {
      result.push_back(c);
    } else if (!remove) {
      result.append({U' ', c, U' '});
    }
  }
  return unicode::encode(result);
}

std::string tokenize(std::string_view line, const TerOptions& options) {
  line = strip_end(line);
  if (line.empty()) return {};
  std::string text = options.case_sensitive ? std::string(line) : lower_text(line);
  if (options.normalized) {
    normalize(text);
    if (options.asian_support) text = separate_or_remove(text, false, stands_alone);
  }
  if (options.no_punct) {
    std::erase_if(text,
                  [](char c) { return std::string_view(".,?:;!\"()").find(c) != std::string_view::npos; });
    if (options.asian_support) text = separate_or_remove(text, true, is_asian_punctuation);
  }
  return text;
}

template <typename Real>
ResampleScore score_of_edits(Real edits, Real length) {
  constexpr bool kSingle = std::is_same_v<Real, float>;
  if (length > 0) return {100 * (edits / length), kSingle};
  return {edits > 0 ? 100.0 : 0.0, false};
}

}  // namespace

std::string ter_tokenize(std::string_view line, const TerOptions& options) {
  const std::string text = tokenize(line, options);
  std::vector<std::string_view> words;
  split_words(text, words);
  std::string joined;
  for (const std::string_view word : words) {
    if (!joined.empty()) joined.push_back(' ');
    joined.append(word);
  }
  return joined;
}

void TerCounter::number(std::string_view line, std::string& text, std::vector<int32_t>& words) {
  text = tokenize(line, options_);
  pieces_.clear();
  split_words(text, pieces_);
  words.clear();
  for (const std::string_view word : pieces_) words.push_back(numbers_.number(word));
}

std::vector<double> TerCounter::count(std::string_view hypothesis,
                                      std::span<const std::string_view> references) {
  if (references.empty()) {
    fail(ErrorKind::kBadData, "TER needs at least one reference per sentence, but there is none");
  }
  if (texts_.size() < references.size() + 1) texts_.resize(references.size() + 1);
  numbers_.clear();
  number(hypothesis, texts_[0], proposed_);
  int64_t fewest = std::numeric_limits<int64_t>::max();
  size_t lengths = 0;
  for (size_t r = 0; r < references.size(); ++r) {
    // sacreBLEU tokenizes a reference twice, which matters if normalization is not idempotent.
    const std::string once =
        options_.normalized ? ter_tokenize(references[r], options_) : std::string(references[r]);
    number(once, texts_[r + 1], reference_);
    fewest = std::min(fewest, translation_edits(proposed_, reference_));
    lengths += reference_.size();
  }
  return {static_cast<double>(fewest), static_cast<double>(lengths) / static_cast<double>(references.size())};
}

double ter_of_statistics(std::span<const double> statistics) {
  return score_of_edits(statistics[0], statistics[1]).value;
}

ResampleScore ter_of_statistics(std::span<const float> statistics) {
  return score_of_edits(statistics[0], statistics[1]);
}

std::string ter_signature(const TerOptions& options, int references, const std::string& trials) {
  const auto yes = [](bool value) { return value ? "yes" : "no"; };
  return fmt::format("nrefs:{}|{}{}case:{}|tok:tercom|norm:{}|punct:{}|asian:{}|version:{}", references,
                     trials, trials.empty() ? "" : "|", options.case_sensitive ? "mixed" : "lc",
                     yes(options.normalized), yes(!options.no_punct), yes(options.asian_support),
                     kSacrebleuVersion);
}

}  // namespace ventris::data
