// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "data/scores/bleu.h"
#include "data/scores/chrf.h"

namespace ventris::data {

enum class MetricKind { kBleu, kChrf };

struct MetricOptions {
  BleuOptions bleu;
  ChrfOptions chrf;
};

/// The counts of a metric for each sentence. A score depends only on sums of rows.
struct Statistics {
  size_t columns = 0;
  std::vector<double> values;  // [sentences, columns]

  size_t sentences() const { return columns == 0 ? 0 : values.size() / columns; }
  std::span<const double> row(size_t sentence) const {
    return std::span<const double>(values).subspan(sentence * columns, columns);
  }
  std::vector<double> sums() const;
};

/// BLEU or chrF with its options; higher is better.
class Metric {
 public:
  Metric(MetricKind kind, const MetricOptions& options) : kind_(kind), options_(options) {}

  MetricKind kind() const { return kind_; }
  const MetricOptions& options() const { return options_; }
  std::string name() const;  // "BLEU", "chrF2++"
  std::string signature(int references, const std::string& trials = {}) const;

  /// `references[r]` is reference r for every sentence. Throws DataError kBadData on unequal numbers of
  /// lines, naming them, or without references.
  Statistics count(const std::vector<std::string>& hypotheses,
                   const std::vector<std::vector<std::string>>& references) const;
  double score(std::span<const double> sums) const;
  ResampleScore score(std::span<const float> sums) const;

 private:
  bool is_bleu() const { return kind_ == MetricKind::kBleu; }

  MetricKind kind_;
  MetricOptions options_;
};

/// Throws DataError kBadData if there is no reference, or one does not have `lines` lines.
void check_references(const std::vector<std::vector<std::string>>& references, size_t lines);

}  // namespace ventris::data
