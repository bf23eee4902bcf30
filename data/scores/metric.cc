// SPDX-License-Identifier: Apache-2.0
#include "data/scores/metric.h"

#include <string_view>

#include "data/error.h"

namespace ventris::data {
namespace {

template <typename Counter>
Statistics count_all(const std::vector<std::string>& hypotheses,
                     const std::vector<std::vector<std::string>>& references, Counter counter) {
  Statistics statistics;
  std::vector<std::string_view> of_sentence(references.size());
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    for (size_t r = 0; r < references.size(); ++r) of_sentence[r] = references[r][i];
    const std::vector<double> row = counter.count(hypotheses[i], of_sentence);
    statistics.columns = row.size();
    statistics.values.insert(statistics.values.end(), row.begin(), row.end());
  }
  return statistics;
}

}  // namespace

std::vector<double> Statistics::sums() const {
  std::vector<double> sums(columns, 0.0);
  for (size_t i = 0; i < values.size(); ++i) sums[i % columns] += values[i];
  return sums;
}

void check_references(const std::vector<std::vector<std::string>>& references, size_t lines) {
  if (references.empty())
    fail(ErrorKind::kBadData, "a score needs at least one reference, but none is given");
  for (size_t r = 0; r < references.size(); ++r) {
    if (references[r].size() == lines) continue;
    fail(ErrorKind::kBadData,
         "reference {} has {} lines, but there are {} lines to score: "
         "every sentence needs one line in each file",
         r + 1, references[r].size(), lines);
  }
}

std::string Metric::name() const {
  return is_bleu() ? "BLEU" : chrf_name(options_.chrf);
}

std::string Metric::signature(int references, const std::string& trials) const {
  return is_bleu() ? bleu_signature(options_.bleu, references, trials)
                   : chrf_signature(options_.chrf, references, trials);
}

Statistics Metric::count(const std::vector<std::string>& hypotheses,
                         const std::vector<std::vector<std::string>>& references) const {
  check_references(references, hypotheses.size());
  return is_bleu() ? count_all(hypotheses, references, BleuCounter(options_.bleu))
                   : count_all(hypotheses, references, ChrfCounter(options_.chrf));
}

double Metric::score(std::span<const double> sums) const {
  return is_bleu() ? bleu_score(sums, options_.bleu).score : chrf_of_statistics(sums, options_.chrf);
}

ResampleScore Metric::score(std::span<const float> sums) const {
  return is_bleu() ? ResampleScore{bleu_of_resample(sums, options_.bleu), false}
                   : chrf_of_statistics(sums, options_.chrf);
}

}  // namespace ventris::data
