#include "data/bleu.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <unordered_map>
#include <utility>

#include "data/error.h"

namespace ventris::data {
namespace {

constexpr int kOrders = 4;
/// The release of sacreBLEU whose results the tests hold this file to (tests/golden/bleu.py).
constexpr const char* kSacrebleuVersion = "2.6.0";

using Words = std::vector<int32_t>;
using Ngram = std::array<int32_t, kOrders>;                  // unused places hold -1
using NgramCounts = std::vector<std::pair<Ngram, int64_t>>;  // sorted

/// Numbers of the words of a tokenized line; words not in `vocabulary` are added to it.
Words number_words(const std::string& line, std::unordered_map<std::string, int32_t>& vocabulary) {
  Words words;
  for (size_t begin = 0; begin < line.size();) {
    const size_t end = std::min(line.find(' ', begin), line.size());
    words.push_back(vocabulary.try_emplace(line.substr(begin, end - begin), vocabulary.size()).first->second);
    begin = end + 1;
  }
  return words;
}

/// Appends the different n-grams of one order with their counts, sorted among themselves.
void count_ngrams(const Words& words, int order, NgramCounts& counts) {
  std::vector<Ngram> ngrams;
  for (size_t i = 0; i + static_cast<size_t>(order) <= words.size(); ++i) {
    Ngram ngram;
    ngram.fill(-1);
    std::copy_n(words.begin() + static_cast<int64_t>(i), order, ngram.begin());
    ngrams.push_back(ngram);
  }
  std::sort(ngrams.begin(), ngrams.end());
  const size_t begin = counts.size();
  for (const Ngram& ngram : ngrams) {
    if (counts.size() == begin || counts.back().first != ngram) counts.emplace_back(ngram, 0);
    ++counts.back().second;
  }
}

/// The largest count of an n-gram in `counts`, which may hold it several times, or 0.
int64_t largest_count(const NgramCounts& counts, const Ngram& ngram) {
  const auto after = std::upper_bound(counts.begin(), counts.end(),
                                      std::make_pair(ngram, std::numeric_limits<int64_t>::max()));
  return after == counts.begin() || std::prev(after)->first != ngram ? 0 : std::prev(after)->second;
}

double smoothing_value(const BleuOptions& options) {
  if (options.smoothing_value >= 0.0) return options.smoothing_value;
  return options.smoothing == BleuSmoothing::kFloor ? 0.1 : 1.0;
}

/// The logarithm that a precision of zero takes part with: it makes the score zero.
double log_or_very_small(double x) {
  return x == 0.0 ? -9999999999.0 : std::log(x);
}

}  // namespace

const char* name_of(BleuTokenizer tokenizer) {
  switch (tokenizer) {
    case BleuTokenizer::k13a:
      return "13a";
    case BleuTokenizer::kNone:
      return "none";
    case BleuTokenizer::kChar:
      return "char";
    case BleuTokenizer::kInternational:
      return "intl";
  }
  return "";
}

const char* name_of(BleuSmoothing smoothing) {
  switch (smoothing) {
    case BleuSmoothing::kExp:
      return "exp";
    case BleuSmoothing::kFloor:
      return "floor";
    case BleuSmoothing::kAddK:
      return "add-k";
    case BleuSmoothing::kNone:
      return "none";
  }
  return "";
}

BleuCounts& BleuCounts::operator+=(const BleuCounts& other) {
  for (int n = 0; n < kOrders; ++n) {
    correct[n] += other.correct[n];
    total[n] += other.total[n];
  }
  hypothesis_length += other.hypothesis_length;
  reference_length += other.reference_length;
  return *this;
}

BleuCounts sentence_counts(const std::string& hypothesis, const std::vector<std::string>& references,
                           const BleuOptions& options) {
  if (references.empty()) {
    fail(ErrorKind::kBadData, "BLEU needs at least one reference a sentence, but there is none");
  }
  std::unordered_map<std::string, int32_t> vocabulary;
  const Words words = number_words(bleu_tokenize(hypothesis, options), vocabulary);
  const auto length = static_cast<int64_t>(words.size());
  std::vector<Words> reference_words;
  BleuCounts counts;
  counts.hypothesis_length = length;
  int64_t closest = std::numeric_limits<int64_t>::max();
  for (const std::string& reference : references) {
    reference_words.push_back(number_words(bleu_tokenize(reference, options), vocabulary));
    const auto reference_length = static_cast<int64_t>(reference_words.back().size());
    const int64_t distance = std::abs(length - reference_length);
    const bool shorter_of_equal = distance == closest && reference_length < counts.reference_length;
    if (distance < closest || shorter_of_equal) counts.reference_length = reference_length;
    closest = std::min(closest, distance);
  }
  for (int order = 1; order <= kOrders; ++order) {
    NgramCounts allowed;
    for (const Words& reference : reference_words) count_ngrams(reference, order, allowed);
    std::sort(allowed.begin(), allowed.end());
    NgramCounts proposed;
    count_ngrams(words, order, proposed);
    for (const auto& [ngram, count] : proposed) {
      counts.total[order - 1] += count;
      counts.correct[order - 1] += std::min(count, largest_count(allowed, ngram));
    }
  }
  return counts;
}

BleuScore bleu_of_counts(const BleuCounts& counts, const BleuOptions& options) {
  BleuScore result;
  result.counts = counts;
  const auto length = static_cast<double>(counts.hypothesis_length);
  result.brevity_penalty = 1.0;
  if (counts.hypothesis_length < counts.reference_length) {
    result.brevity_penalty = counts.hypothesis_length > 0
                                 ? std::exp(1.0 - static_cast<double>(counts.reference_length) / length)
                                 : 0.0;
  }
  if (std::all_of(counts.correct.begin(), counts.correct.end(), [](int64_t c) { return c == 0; }))
    return result;
  const double value = smoothing_value(options);
  double divisor = 1.0;
  int orders = kOrders;
  for (int n = 0; n < kOrders; ++n) {
    const double added = options.smoothing == BleuSmoothing::kAddK && n > 0 ? value : 0.0;
    const double correct = static_cast<double>(counts.correct[n]) + added;
    const double total = static_cast<double>(counts.total[n]) + added;
    if (total == 0.0) break;
    if (options.effective_order) orders = n + 1;
    if (correct > 0.0) {
      result.precisions[n] = 100.0 * correct / total;
    } else if (options.smoothing == BleuSmoothing::kExp) {
      divisor *= 2.0;
      result.precisions[n] = 100.0 / (divisor * total);
    } else if (options.smoothing == BleuSmoothing::kFloor) {
      result.precisions[n] = 100.0 * value / total;
    }
  }
  double logs = 0.0;
  for (int n = 0; n < orders; ++n) logs += log_or_very_small(result.precisions[n]);
  result.score = result.brevity_penalty * std::exp(logs / orders);
  return result;
}

BleuScore corpus_bleu(const std::vector<std::string>& hypotheses,
                      const std::vector<std::vector<std::string>>& references, const BleuOptions& options) {
  if (references.empty()) fail(ErrorKind::kBadData, "BLEU needs at least one reference, but none is given");
  for (size_t r = 0; r < references.size(); ++r) {
    if (references[r].size() != hypotheses.size()) {
      fail(ErrorKind::kBadData,
           "reference {} has {} lines, but there are {} lines to score: every sentence needs one line in "
           "each file",
           r + 1, references[r].size(), hypotheses.size());
    }
  }
  BleuCounts counts;
  std::vector<std::string> of_sentence(references.size());
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    for (size_t r = 0; r < references.size(); ++r) of_sentence[r] = references[r][i];
    counts += sentence_counts(hypotheses[i], of_sentence, options);
  }
  return bleu_of_counts(counts, options);
}

std::string bleu_signature(const BleuOptions& options, int references) {
  std::string smoothing = name_of(options.smoothing);
  if (options.smoothing == BleuSmoothing::kFloor || options.smoothing == BleuSmoothing::kAddK) {
    smoothing += fmt::format("[{:.2f}]", smoothing_value(options));
  }
  return fmt::format("nrefs:{}|case:{}|eff:{}|tok:{}|smooth:{}|version:{}", references,
                     options.lowercase ? "lc" : "mixed", options.effective_order ? "yes" : "no",
                     name_of(options.tokenizer), smoothing, kSacrebleuVersion);
}

std::string bleu_verbose(const BleuScore& score) {
  const BleuCounts& counts = score.counts;
  const double ratio = counts.reference_length == 0 ? 0.0
                                                    : static_cast<double>(counts.hypothesis_length) /
                                                          static_cast<double>(counts.reference_length);
  return fmt::format(
      "BLEU = {:.2f} {:.1f}/{:.1f}/{:.1f}/{:.1f} (BP = {:.3f} ratio = {:.3f} hyp_len = {} ref_len = {})",
      score.score, score.precisions[0], score.precisions[1], score.precisions[2], score.precisions[3],
      score.brevity_penalty, ratio, counts.hypothesis_length, counts.reference_length);
}

}  // namespace ventris::data
