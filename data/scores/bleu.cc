// SPDX-License-Identifier: Apache-2.0
#include "data/scores/bleu.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "data/scores/bleu_counter.h"
#include "data/scores/metric.h"

namespace ventris::data {
namespace {

double smoothing_value(const BleuOptions& options) {
  if (options.smoothing_value >= 0.0) return options.smoothing_value;
  return options.smoothing == BleuSmoothing::kFloor ? 0.1 : 1.0;
}

/// The logarithm used for a precision of zero: it makes the score zero.
double log_or_very_small(double x) {
  return x == 0.0 ? -9999999999.0 : std::log(x);
}

/// The score of a row of bleu_statistics(), with precisions of type Real; `result`, if not null, receives
/// them and the brevity penalty. The order of the operations is that of sacreBLEU, so that even single
/// precision gives its bits.
template <typename Real>
double score_of_counts(std::span<const Real> statistics, const BleuOptions& options, BleuScore* result) {
  const auto orders = static_cast<size_t>(options.max_ngram_order);
  const auto hypothesis_length = static_cast<double>(statistics[0]);
  const auto reference_length = static_cast<double>(statistics[1]);
  const std::span<const Real> all_correct = statistics.subspan(2, orders);
  const std::span<const Real> all_total = statistics.subspan(2 + orders, orders);
  std::array<Real, kMaxBleuOrder> precisions{};
  double brevity_penalty = 1.0;
  if (hypothesis_length < reference_length)
    brevity_penalty = hypothesis_length > 0 ? std::exp(1.0 - reference_length / hypothesis_length) : 0.0;
  if (result != nullptr) {
    result->brevity_penalty = brevity_penalty;
    result->precisions.assign(orders, 0.0);
  }
  if (std::all_of(all_correct.begin(), all_correct.end(), [](Real c) { return c == 0; })) return 0.0;

  const double value = smoothing_value(options);
  double divisor = 1.0;
  size_t used_orders = orders;
  for (size_t n = 0; n < orders; ++n) {
    const Real added =
        options.smoothing == BleuSmoothing::kAddK && n > 0 ? static_cast<Real>(value) : Real{0};
    const Real correct = all_correct[n] + added;
    const Real total = all_total[n] + added;
    if (total == 0) break;
    if (options.effective_order) used_orders = n + 1;
    if (correct != 0) {
      precisions[n] = Real{100} * correct / total;
    } else if (options.smoothing == BleuSmoothing::kExp) {
      divisor *= 2.0;
      precisions[n] = Real{100} / (static_cast<Real>(divisor) * total);
    } else if (options.smoothing == BleuSmoothing::kFloor) {
      precisions[n] = static_cast<Real>(100.0 * value) / total;
    }
  }
  double logs = 0.0;
  for (size_t n = 0; n < used_orders; ++n) logs += log_or_very_small(static_cast<double>(precisions[n]));
  if (result != nullptr) std::copy_n(precisions.begin(), orders, result->precisions.begin());
  return brevity_penalty * std::exp(logs / static_cast<double>(used_orders));
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
    case BleuTokenizer::kChinese:
      return "zh";
  }
  return "";
}

std::optional<BleuTokenizer> bleu_tokenizer_named(std::string_view name) {
  for (const BleuTokenizer tokenizer : kBleuTokenizers) {
    if (name == name_of(tokenizer)) return tokenizer;
  }
  return std::nullopt;
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
  for (int n = 0; n < kMaxBleuOrder; ++n) {
    correct[n] += other.correct[n];
    total[n] += other.total[n];
  }
  hypothesis_length += other.hypothesis_length;
  reference_length += other.reference_length;
  return *this;
}

BleuCounts sentence_counts(const std::string& hypothesis, const std::vector<std::string>& references,
                           const BleuOptions& options) {
  const std::vector<std::string_view> views(references.begin(), references.end());
  return BleuCounter(options).count(hypothesis, views);
}

BleuScore bleu_of_counts(const BleuCounts& counts, const BleuOptions& options) {
  BleuScore result;
  result.counts = counts;
  const std::vector<double> statistics = bleu_statistics(counts, options);
  result.score = score_of_counts<double>(statistics, options, &result);
  return result;
}

std::vector<double> bleu_statistics(const BleuCounts& counts, const BleuOptions& options) {
  const auto orders = static_cast<size_t>(options.max_ngram_order);
  std::vector<double> row = {static_cast<double>(counts.hypothesis_length),
                             static_cast<double>(counts.reference_length)};
  row.insert(row.end(), counts.correct.begin(), counts.correct.begin() + static_cast<int64_t>(orders));
  row.insert(row.end(), counts.total.begin(), counts.total.begin() + static_cast<int64_t>(orders));
  return row;
}

BleuCounts bleu_counts(std::span<const double> statistics, const BleuOptions& options) {
  BleuCounts counts;
  counts.hypothesis_length = static_cast<int64_t>(statistics[0]);
  counts.reference_length = static_cast<int64_t>(statistics[1]);
  const auto orders = static_cast<size_t>(options.max_ngram_order);
  for (size_t n = 0; n < orders; ++n) {
    counts.correct[n] = static_cast<int64_t>(statistics[2 + n]);
    counts.total[n] = static_cast<int64_t>(statistics[2 + orders + n]);
  }
  return counts;
}

double bleu_of_statistics(std::span<const double> statistics, const BleuOptions& options) {
  return score_of_counts<double>(statistics, options, nullptr);
}

double bleu_of_statistics(std::span<const float> statistics, const BleuOptions& options) {
  return score_of_counts<float>(statistics, options, nullptr);
}

BleuScore corpus_bleu(const std::vector<std::string>& hypotheses,
                      const std::vector<std::vector<std::string>>& references, const BleuOptions& options) {
  check_references(references, hypotheses.size());
  BleuCounter counter(options);
  BleuCounts counts;
  std::vector<std::string_view> of_sentence(references.size());
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    for (size_t r = 0; r < references.size(); ++r) of_sentence[r] = references[r][i];
    counts += counter.count(hypotheses[i], of_sentence);
  }
  return bleu_of_counts(counts, options);
}

std::string bleu_signature(const BleuOptions& options, int references, const std::string& trials) {
  std::string smoothing = name_of(options.smoothing);
  if (options.smoothing == BleuSmoothing::kFloor || options.smoothing == BleuSmoothing::kAddK) {
    smoothing += fmt::format("[{:.2f}]", smoothing_value(options));
  }
  return fmt::format("nrefs:{}|{}{}case:{}|eff:{}|tok:{}|smooth:{}|version:{}", references, trials,
                     trials.empty() ? "" : "|", options.lowercase ? "lc" : "mixed",
                     options.effective_order ? "yes" : "no", name_of(options.tokenizer), smoothing,
                     kSacrebleuVersion);
}

std::string bleu_details(const BleuScore& score) {
  const BleuCounts& counts = score.counts;
  const double ratio = counts.reference_length == 0 ? 0.0
                                                    : static_cast<double>(counts.hypothesis_length) /
                                                          static_cast<double>(counts.reference_length);
  std::string precisions;
  for (const double precision : score.precisions)
    precisions += fmt::format("{}{:.1f}", precisions.empty() ? "" : "/", precision);
  return fmt::format("{} (BP = {:.3f} ratio = {:.3f} hyp_len = {} ref_len = {})", precisions,
                     score.brevity_penalty, ratio, counts.hypothesis_length, counts.reference_length);
}

}  // namespace ventris::data
