// SPDX-License-Identifier: Apache-2.0
#include "data/scores/chrf.h"

#include <fmt/core.h>

#include <algorithm>

#include "data/scores/bleu.h"
#include "data/scores/score_text.h"
#include "data/text/unicode.h"

namespace ventris::data {
namespace {

constexpr size_t kColumns = 3;  // of an order: hypothesis, reference, both

bool is_ascii_punctuation(char32_t c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

/// The F score of each order's counts, 0 to 100. Every operation is in the same type as in sacreBLEU: an
/// order without n-grams counts as 1e-16.
template <typename Real>
ResampleScore f_score(std::span<const Real> statistics, const ChrfOptions& options) {
  const auto factor = static_cast<Real>(options.beta * options.beta);
  const auto tiny = static_cast<Real>(1e-16);
  constexpr bool kSingle = std::is_same_v<Real, float>;
  const size_t orders = statistics.size() / kColumns;
  Real score = 0;
  Real precisions = 0;
  Real recalls = 0;
  int effective_orders = 0;
  bool any_counts = false;
  for (size_t n = 0; n < orders; ++n) {
    const Real in_hypothesis = statistics[kColumns * n];
    const Real in_reference = statistics[kColumns * n + 1];
    const Real in_both = statistics[kColumns * n + 2];
    const Real precision = in_hypothesis > 0 ? in_both / in_hypothesis : tiny;
    const Real recall = in_reference > 0 ? in_both / in_reference : tiny;
    const Real weighted = factor * precision;
    const Real denominator = weighted + recall;
    any_counts = any_counts || (denominator > 0 && (in_hypothesis > 0 || in_reference > 0));
    score += denominator > 0 ? (1 + factor) * precision * recall / denominator : tiny;
    if (in_hypothesis > 0 && in_reference > 0) {
      precisions += precision;
      recalls += recall;
      ++effective_orders;
    }
  }
  if (options.eps_smoothing) return {100 * score / static_cast<Real>(orders), kSingle && any_counts};
  if (effective_orders == 0) return {0.0, false};
  precisions /= static_cast<Real>(effective_orders);
  recalls /= static_cast<Real>(effective_orders);
  if (precisions + recalls == 0) return {0.0, false};
  const Real weighted = factor * precisions;
  score = (1 + factor) * precisions * recalls / (weighted + recalls);
  return {100 * score, kSingle};
}

}  // namespace

const ChrfCounter::Sentence& ChrfCounter::cut(std::string_view line) {
  Sentence& sentence = sentences_.emplace_back();
  sentence.text = unicode::decode(line);
  if (options_.lowercase) sentence.text = unicode::lower(sentence.text);
  for (const char32_t c : sentence.text) {
    if (options_.whitespace || !unicode::is_space(c)) sentence.characters.push_back(static_cast<int32_t>(c));
  }
  if (options_.word_order == 0) return sentence;
  // One punctuation mark is split from the end of a word, or otherwise from its beginning.
  const auto add = [&](std::u32string_view word) { sentence.words.push_back(numbers_.number(word)); };
  for (const std::u32string_view word : split_words(sentence.text)) {
    if (word.size() > 1 && is_ascii_punctuation(word.back())) {
      add(word.substr(0, word.size() - 1));
      add(word.substr(word.size() - 1));
    } else if (word.size() > 1 && is_ascii_punctuation(word.front())) {
      add(word.substr(0, 1));
      add(word.substr(1));
    } else {
      add(word);
    }
  }
  return sentence;
}

std::vector<double> ChrfCounter::count(std::string_view hypothesis,
                                       std::span<const std::string_view> references) {
  numbers_.clear();
  sentences_.clear();
  const Sentence& proposed = cut(hypothesis);
  character_matches_.set_hypothesis(proposed.characters, options_.char_order);
  word_matches_.set_hypothesis(proposed.words, options_.word_order);
  std::vector<double> best;
  double best_score = -1.0;
  std::vector<double> row;
  const auto append = [&row](NgramMatches& ngrams, int orders, const std::vector<int32_t>& of_hypothesis,
                             const std::vector<int32_t>& of_reference) {
    int64_t matches[kMaxChrfOrder] = {};
    ngrams.forget_references();
    ngrams.add_reference(of_reference, matches);
    for (int n = 0; n < orders; ++n) {
      const auto count = [n](const std::vector<int32_t>& symbols) {
        return static_cast<double>(std::max<int64_t>(std::ssize(symbols) - n, 0));
      };
      row.push_back(count(of_reference) > 0 ? count(of_hypothesis) : 0.0);
      row.push_back(count(of_reference));
      row.push_back(static_cast<double>(matches[n]));
    }
  };
  for (const std::string_view line : references) {
    const Sentence& reference = cut(line);
    row.clear();
    append(character_matches_, options_.char_order, proposed.characters, reference.characters);
    append(word_matches_, options_.word_order, proposed.words, reference.words);
    const double score = chrf_of_statistics(row, options_);
    if (score > best_score) {
      best_score = score;
      best = row;
    }
  }
  return best;
}

double chrf_of_statistics(std::span<const double> statistics, const ChrfOptions& options) {
  return f_score<double>(statistics, options).value;
}

ResampleScore chrf_of_statistics(std::span<const float> statistics, const ChrfOptions& options) {
  return f_score<float>(statistics, options);
}

std::string chrf_name(const ChrfOptions& options) {
  return fmt::format("chrF{}{}", options.beta, std::string(static_cast<size_t>(options.word_order), '+'));
}

std::string chrf_signature(const ChrfOptions& options, int references, const std::string& trials) {
  return fmt::format("nrefs:{}|{}{}case:{}|eff:{}|nc:{}|nw:{}|space:{}|version:{}", references, trials,
                     trials.empty() ? "" : "|", options.lowercase ? "lc" : "mixed",
                     options.eps_smoothing ? "no" : "yes", options.char_order, options.word_order,
                     options.whitespace ? "yes" : "no", kSacrebleuVersion);
}

}  // namespace ventris::data
