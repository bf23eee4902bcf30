// SPDX-License-Identifier: Apache-2.0
#include "data/scores/bleu.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "data/scores/bleu_tokenize.h"
#include "data/scores/score_text.h"

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

/// The score of a sum of rows, with precisions of type Real; `result`, if not null, receives them and the
/// brevity penalty. The order of the operations is that of sacreBLEU, so that even single precision gives its
/// bits.
template <typename Real>
double score_of(std::span<const Real> statistics, const BleuOptions& options, BleuScore* result) {
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

std::vector<int32_t> BleuCounter::symbols_of(std::string_view line) {
  std::vector<int32_t> symbols;
  for (const std::u32string_view word : split_words(lines_.emplace_back(bleu_text(line, options_))))
    symbols.push_back(numbers_.number(word));
  return symbols;
}

std::vector<double> BleuCounter::count(std::string_view hypothesis,
                                       std::span<const std::string_view> references) {
  numbers_.clear();
  lines_.clear();
  const std::vector<int32_t> symbols = symbols_of(hypothesis);
  matches_.set_hypothesis(symbols, options_.max_ngram_order);
  const auto length = std::ssize(symbols);
  int64_t closest = 0;
  std::array<int64_t, kMaxBleuOrder> correct{};
  for (size_t r = 0; r < references.size(); ++r) {
    const std::vector<int32_t> reference = symbols_of(references[r]);
    matches_.add_reference(reference, correct.data());
    const auto order = [length](int64_t any) { return std::pair(std::abs(length - any), any); };
    if (r == 0 || order(std::ssize(reference)) < order(closest)) closest = std::ssize(reference);
  }
  std::vector<double> row = {static_cast<double>(length), static_cast<double>(closest)};
  row.insert(row.end(), correct.begin(), correct.begin() + options_.max_ngram_order);
  for (int n = 0; n < options_.max_ngram_order; ++n)
    row.push_back(static_cast<double>(std::max<int64_t>(length - n, 0)));
  return row;
}

BleuScore bleu_score(std::span<const double> statistics, const BleuOptions& options) {
  BleuScore result;
  result.hypothesis_length = static_cast<int64_t>(statistics[0]);
  result.reference_length = static_cast<int64_t>(statistics[1]);
  result.score = score_of<double>(statistics, options, &result);
  return result;
}

double bleu_of_resample(std::span<const float> statistics, const BleuOptions& options) {
  return score_of<float>(statistics, options, nullptr);
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
  const double ratio = score.reference_length == 0 ? 0.0
                                                   : static_cast<double>(score.hypothesis_length) /
                                                         static_cast<double>(score.reference_length);
  std::string precisions;
  for (const double precision : score.precisions)
    precisions += fmt::format("{}{:.1f}", precisions.empty() ? "" : "/", precision);
  return fmt::format("{} (BP = {:.3f} ratio = {:.3f} hyp_len = {} ref_len = {})", precisions,
                     score.brevity_penalty, ratio, score.hypothesis_length, score.reference_length);
}

}  // namespace ventris::data
