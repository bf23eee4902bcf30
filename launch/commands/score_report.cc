// SPDX-License-Identifier: Apache-2.0
#include "launch/commands/score_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "data/text/unicode.h"
#include "trainer/json_text.h"
#include "trainer/program_version.h"

namespace ventris {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr double kMarkedSignificance = 0.05;

std::string digits(double value, int width) {
  return fmt::format("{:.{}f}", value, width);
}

double rounded(double value, std::optional<int> width) {
  return width ? std::stod(digits(value, *width)) : value;
}

size_t characters(const std::string& text) {
  return data::unicode::decode(text).size();
}

/// Prints the interval in the cases in which sacreBLEU does.
bool shows_estimate(const ScoreReport& report) {
  return report.estimate && report.estimate->mean > 0;
}

std::string estimate_text(const data::Estimate& estimate, int width) {
  return fmt::format("μ = {} ± {}", digits(estimate.mean, width), digits(estimate.half_width, width));
}

using Cell = std::vector<std::string>;  // lines

Cell cell_of(const data::PairedResult& result, int width) {
  Cell cell = {digits(result.score, width)};
  if (result.estimate) {
    cell.front() += fmt::format(" ({} ± {})", digits(result.estimate->mean, width),
                                digits(result.estimate->half_width, width));
  }
  if (result.p_value)
    cell.push_back(
        fmt::format("(p = {:.4f}){}", *result.p_value, *result.p_value > kMarkedSignificance ? "" : "*"));
  return cell;
}

std::string padded(const std::string& text, size_t width, bool right) {
  const size_t space = width - std::min(width, characters(text));
  const size_t before = right ? space : space / 2;
  return std::string(before, ' ') + text + std::string(space - before, ' ');
}

/// A horizontal line of a table: left end, crossing, right end, dash.
std::string rule(const std::vector<size_t>& widths, const std::array<const char*, 4>& parts) {
  std::string line = parts[0];
  for (size_t c = 0; c < widths.size(); ++c) {
    if (c > 0) line += parts[1];
    for (size_t i = 0; i < widths[c] + 2; ++i) line += parts[3];
  }
  return line + parts[2] + "\n";
}

/// The first row is the heading. The first column is right-aligned, the others are centred.
std::string table(const std::vector<std::vector<Cell>>& rows) {
  std::vector<size_t> widths(rows.front().size(), 0);
  for (const auto& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) {
      for (const std::string& line : row[c]) widths[c] = std::max(widths[c], characters(line));
    }
  }
  std::string text = rule(widths, {"╒", "╤", "╕", "═"});
  for (size_t r = 0; r < rows.size(); ++r) {
    if (r == 1) text += rule(widths, {"╞", "╪", "╡", "═"});
    if (r > 1) text += rule(widths, {"├", "┼", "┤", "─"});
    size_t lines = 0;
    for (const Cell& cell : rows[r]) lines = std::max(lines, cell.size());
    for (size_t i = 0; i < lines; ++i) {
      for (size_t c = 0; c < rows[r].size(); ++c)
        text += "│ " + padded(i < rows[r][c].size() ? rows[r][c][i] : "", widths[c], c == 0) + " ";
      text += "│\n";
    }
  }
  return text + rule(widths, {"╘", "╧", "╛", "═"});
}

}  // namespace

std::string signed_by_us(const std::string& signature) {
  return fmt::format("{}|ventris:{}", signature, program_version());
}

ScoreReport metric_report(const data::Metric& metric, const data::Statistics& statistics, size_t references,
                          const std::string& trials) {
  const std::vector<double> sums = statistics.sums();
  ScoreReport report{.name = metric.name(),
                     .score = metric.score(sums),
                     .signature = signed_by_us(metric.signature(static_cast<int>(references), trials))};
  if (metric.kind() == data::MetricKind::kBleu) {
    report.bleu = data::bleu_score(sums, metric.options().bleu);
    report.details = data::bleu_details(*report.bleu);
  }
  return report;
}

std::string score_text(const ScoreReport& report, int width) {
  std::string text = digits(report.score, width);
  if (shows_estimate(report)) text += " (" + estimate_text(*report.estimate, width) + ")";
  return text;
}

std::string score_line(const ScoreReport& report, int width) {
  std::string line = fmt::format("{}|{} = {}", report.name, report.signature, score_text(report, width));
  if (!report.details.empty()) line += " " + report.details;
  return line;
}

std::string aligned_lines(const std::vector<ScoreReport>& reports, int width) {
  std::vector<std::string> lines;
  size_t longest = 0;
  for (const ScoreReport& report : reports) {
    lines.push_back(score_line(report, width));
    longest = std::max(longest, lines.back().find('='));
  }
  std::string text;
  for (const std::string& line : lines) text += std::string(longest - line.find('='), ' ') + line + "\n";
  return text;
}

std::string score_json(const ScoreReport& report, std::optional<int> width) {
  constexpr int kTextWidth = 2;
  OrderedJson result = {
      {"name", report.name}, {"score", rounded(report.score, width)}, {"signature", report.signature}};
  if (shows_estimate(report)) {
    result["confidence_mean"] = rounded(report.estimate->mean, width);
    result["confidence_var"] = rounded(report.estimate->half_width, width);
    result["confidence"] = estimate_text(*report.estimate, width.value_or(kTextWidth));
  }
  if (!report.details.empty()) result["verbose_score"] = report.details;
  for (size_t begin = 0; begin < report.signature.size();) {
    const size_t end = std::min(report.signature.find('|', begin), report.signature.size());
    const size_t colon = report.signature.find(':', begin);
    result[report.signature.substr(begin, colon - begin)] =
        report.signature.substr(colon + 1, end - colon - 1);
    begin = end + 1;
  }
  if (report.bleu) {
    result["precisions"] = report.bleu->precisions;
    result["brevity_penalty"] = report.bleu->brevity_penalty;
    result["hypothesis_length"] = report.bleu->hypothesis_length;
    result["reference_length"] = report.bleu->reference_length;
  }
  return json_text(result);
}

std::string comparison_text(const Comparison& comparison, int width) {
  std::vector<std::vector<Cell>> rows(comparison.systems.size() + 1);
  rows[0].push_back({"System"});
  for (size_t s = 0; s < comparison.systems.size(); ++s) rows[s + 1].push_back({comparison.systems[s]});
  bool intervals = false;
  for (const Comparison::Column& column : comparison.columns) {
    const bool interval = column.results.front().estimate.has_value();
    intervals = intervals || interval;
    rows[0].push_back({column.metric + (interval ? " (μ ± 95% CI)" : "")});
    for (size_t s = 0; s < column.results.size(); ++s)
      rows[s + 1].push_back(cell_of(column.results[s], width));
  }
  std::string text = table(rows) + "\n";
  if (!comparison.test.empty()) {
    text += fmt::format("Paired {}: every system against the baseline, {}.\n", comparison.test,
                        comparison.systems.front());
    if (intervals) text += "Mean and 95% confidence interval are those of the resamples.\n";
    text += fmt::format(
        "p is about the probability that this difference of the scores, or a larger one, "
        "occurs by chance if both\n"
        "systems are the same process. * marks p of {} or less: the systems differ. "
        "It does not say which is better.\n\n",
        kMarkedSignificance);
  }
  for (const Comparison::Column& column : comparison.columns)
    text += fmt::format("{}|{}\n", column.metric, column.signature);
  return text;
}

std::string comparison_json(const Comparison& comparison) {
  OrderedJson systems = OrderedJson::array();
  for (size_t s = 0; s < comparison.systems.size(); ++s) {
    OrderedJson system = {{"system", comparison.systems[s]}};
    for (const Comparison::Column& column : comparison.columns) {
      const data::PairedResult& result = column.results[s];
      OrderedJson cell = {{"score", result.score}, {"p_value", nullptr}, {"mean", nullptr}, {"ci", nullptr}};
      if (result.p_value) cell["p_value"] = *result.p_value;
      if (result.estimate) {
        cell["mean"] = result.estimate->mean;
        cell["ci"] = result.estimate->half_width;
      }
      cell["signature"] = column.signature;
      system[column.metric] = cell;
    }
    systems.push_back(system);
  }
  return json_text(systems);
}

}  // namespace ventris
