// SPDX-License-Identifier: Apache-2.0
#include "data/scores/metric.h"

#include <algorithm>

#include "data/error.h"
#include "data/scores/bleu_counter.h"

namespace ventris::data {
namespace {

/// Rows of a counter for every sentence.
template <typename Row>
Statistics count_all(const std::vector<std::string>& hypotheses,
                     const std::vector<std::vector<std::string>>& references, Row&& row) {
  Statistics statistics;
  std::vector<std::string_view> of_sentence(references.size());
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    for (size_t r = 0; r < references.size(); ++r) of_sentence[r] = references[r][i];
    const std::vector<double> counted = row(hypotheses[i], of_sentence);
    statistics.columns = counted.size();
    statistics.values.insert(statistics.values.end(), counted.begin(), counted.end());
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

Metric::Metric(MetricKind kind, const MetricOptions& options) : kind_(kind), options_(options) {
  if (kind == MetricKind::kBleu) BleuCounter{options.bleu};
  if (kind == MetricKind::kChrf) check_chrf_options(options.chrf);
}

std::string Metric::name() const {
  switch (kind_) {
    case MetricKind::kBleu:
      return "BLEU";
    case MetricKind::kChrf:
      return chrf_name(options_.chrf);
  }
  return "";
}

std::string Metric::signature(int references, const std::string& trials) const {
  switch (kind_) {
    case MetricKind::kBleu:
      return bleu_signature(options_.bleu, references, trials);
    case MetricKind::kChrf:
      return chrf_signature(options_.chrf, references, trials);
  }
  return "";
}

Statistics Metric::count(const std::vector<std::string>& hypotheses,
                         const std::vector<std::vector<std::string>>& references) const {
  check_references(references, hypotheses.size());
  switch (kind_) {
    case MetricKind::kBleu: {
      BleuCounter counter(options_.bleu);
      return count_all(hypotheses, references, [&](const auto& hypothesis, const auto& of_sentence) {
        return bleu_statistics(counter.count(hypothesis, of_sentence), options_.bleu);
      });
    }
    case MetricKind::kChrf: {
      ChrfCounter counter(options_.chrf);
      return count_all(hypotheses, references, [&](const auto& hypothesis, const auto& of_sentence) {
        return counter.count(hypothesis, of_sentence);
      });
    }
  }
  return {};
}

double Metric::score(std::span<const double> sums) const {
  switch (kind_) {
    case MetricKind::kBleu:
      return bleu_of_statistics(sums, options_.bleu);
    case MetricKind::kChrf:
      return chrf_of_statistics(sums, options_.chrf);
  }
  return 0.0;
}

ResampleScore Metric::score(std::span<const float> sums) const {
  switch (kind_) {
    case MetricKind::kBleu:
      return {bleu_of_statistics(sums, options_.bleu), false};
    case MetricKind::kChrf:
      return chrf_of_statistics(sums, options_.chrf);
  }
  return {};
}

}  // namespace ventris::data
