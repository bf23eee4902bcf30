// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/scores/metric.h"
#include "data/scores/significance.h"

namespace ventris {

/// A score of one system for printing.
struct ScoreReport {
  std::string name;  // of the metric
  double score = 0.0;
  std::string signature;
  std::string details = {};  // after the score; may be empty
  std::optional<data::Estimate> estimate = {};
  std::optional<data::BleuScore> bleu = {};  // of BLEU
};

/// A signature of the metrics with the version of the program: "...|version:2.6.0|ventris:0.2.0", where the
/// version is that of the sacreBLEU that gives the same score.
std::string signed_by_us(const std::string& signature);

/// `trials` is part of the signature.
ScoreReport metric_report(const data::Metric& metric, const data::Statistics& statistics, size_t references,
                          const std::string& trials = {});

/// "38.2 (μ = 38.1 ± 0.6)", with `width` digits after the point.
std::string score_text(const ScoreReport& report, int width);
/// "BLEU|nrefs:1|... = 38.2 69.1/45.0/31.2/21.8 (BP = ...)", as printed by sacreBLEU except for the last
/// field of the signature.
std::string score_line(const ScoreReport& report, int width);
/// Lines with aligned equals signs, each with a line end.
std::string aligned_lines(const std::vector<ScoreReport>& reports, int width);
/// An object with sacreBLEU's members; numbers are rounded only if a width is given.
std::string score_json(const ScoreReport& report, std::optional<int> width);

/// Scores of several systems, the first of which may be a baseline.
struct Comparison {
  struct Column {
    std::string metric;
    std::string signature;
    std::vector<data::PairedResult> results;  // of each system
  };
  std::vector<std::string> systems;
  std::vector<Column> columns;
  std::string test;  // "bootstrap resampling test with 1000 resamples"; empty without a test
};

/// A table with a legend, or an array with sacreBLEU's members, one object a system.
std::string comparison_text(const Comparison& comparison, int width);
std::string comparison_json(const Comparison& comparison);

}  // namespace ventris
