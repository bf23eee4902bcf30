// SPDX-License-Identifier: Apache-2.0
#include "launch/pages/report_page.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "launch/pages/page.h"
#include "trainer/program_version.h"
#include "trainer/text.h"

namespace ventris {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson number_or_null(double value) {
  return std::isfinite(value) ? OrderedJson(value) : OrderedJson(nullptr);
}

/// Columns of values and of the places where they were logged.
OrderedJson record_json(const MetricsRecord& record, const MetricsSeries& all) {
  const MetricsSeries series = downsampled(record, all, kReportColumns);
  OrderedJson steps = OrderedJson::array(), seconds = steps, tokens = steps, times = steps, values = steps;
  for (const MetricsValue& value : series) {
    const MetricsPlace& place = record.place_of(value);
    steps.push_back(place.step);
    seconds.push_back(place.seconds);
    tokens.push_back(place.target_tokens);
    times.push_back(number_or_null(place.time));
    values.push_back(value.value);
  }
  return {{"step", steps}, {"seconds", seconds}, {"tokens", tokens},
          {"time", times}, {"value", values},    {"of", all.size()}};
}

OrderedJson record_json(const MetricsRecord& record, const std::map<std::string, MetricsSeries>& all) {
  OrderedJson object = OrderedJson::object();
  for (const auto& [key, series] : all)
    if (!series.empty()) object[key] = record_json(record, series);
  return object;
}

OrderedJson event_marks(const MetricsRecord& record) {
  OrderedJson marks = OrderedJson::array();
  for (size_t i = 0; i < std::min(record.marks.size(), kReportMarks); ++i) {
    const MetricsMark& mark = record.marks[i];
    marks.push_back({{"step", mark.place.step},
                     {"seconds", mark.place.seconds},
                     {"tokens", mark.place.target_tokens},
                     {"time", number_or_null(mark.place.time)},
                     {"kind", name_of(mark.kind)},
                     {"text", mark.text}});
  }
  return marks;
}

OrderedJson samples_of(const RunRecord& run) {
  OrderedJson list = OrderedJson::array();
  for (const ValidSamples& samples : run.samples) {
    list.push_back({{"set", samples.set},
                    {"lines", samples.lines},
                    {"sources", samples.sources},
                    {"references", samples.references},
                    {"steps", samples.steps},
                    {"translations", samples.translations}});
  }
  return list;
}

OrderedJson record_json(const RunRecord& run) {
  const MetricsRecord& metrics = run.metrics;
  OrderedJson object = {
      {"name", run.folder},
      {"state", state_text(run.status)},
      {"message", run.status ? run.status->message : ""},
      {"failed", run.status && (run.status->state == "failed" || was_killed(*run.status))},
      {"command", run.command},
      {"lines", metrics.lines},
      {"warning", warning_of(run)},
      {"torn", metrics.torn},
      {"marks", event_marks(metrics)},
      {"marks_left_out", metrics.marks.size() - std::min(metrics.marks.size(), kReportMarks)},
      {"series", record_json(metrics, metrics.series)},
      {"shares", record_json(metrics, metrics.shares)},
      {"samples", samples_of(run)}};
  return object;
}

OrderedJson run_options(const std::vector<RunRecord>& runs) {
  std::set<std::string> names;
  for (const RunRecord& run : runs)
    for (const auto& [name, value] : run.options) names.insert(name);
  OrderedJson options = OrderedJson::array();
  for (const std::string& name : names) {
    OrderedJson values = OrderedJson::array();
    for (const RunRecord& run : runs) {
      const auto found = run.options.find(name);
      values.push_back(found == run.options.end() ? OrderedJson(nullptr) : OrderedJson(found->second));
    }
    const bool differs = std::ranges::adjacent_find(values, std::not_equal_to<>()) != values.end();
    options.push_back({{"name", name}, {"values", values}, {"differs", differs && name != "model_dir"}});
  }
  return options;
}

}  // namespace

MetricsSeries downsampled(const MetricsRecord& record, const MetricsSeries& series, size_t columns) {
  if (series.size() <= 2 * columns) return series;
  const auto step_of = [&](size_t i) { return static_cast<double>(record.place_of(series[i]).step); };
  const double first = step_of(0);
  const double width = (step_of(series.size() - 1) - first + 1.0) / static_cast<double>(columns);
  const auto lower = [](const MetricsValue& a, const MetricsValue& b) { return a.value < b.value; };
  std::vector<size_t> kept = {0};
  for (size_t begin = 0, end = 0; begin < series.size(); begin = end) {
    const double column = std::floor((step_of(begin) - first) / width);
    while (end < series.size() && std::floor((step_of(end) - first) / width) == column) ++end;
    const auto at = [&](size_t i) { return series.begin() + static_cast<std::ptrdiff_t>(i); };
    const auto [low, high] = std::minmax_element(at(begin), at(end), lower);
    kept.push_back(static_cast<size_t>(low - series.begin()));
    kept.push_back(static_cast<size_t>(high - series.begin()));
  }
  kept.push_back(series.size() - 1);
  std::ranges::sort(kept);
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  MetricsSeries result;
  for (const size_t i : kept) result.push_back(series[i]);
  return result;
}

std::string report_page(const std::vector<RunRecord>& runs, int every) {
  OrderedJson list = OrderedJson::array();
  for (const RunRecord& run : runs) list.push_back(record_json(run));
  const OrderedJson data = {{"program", program_name_and_version()},
                            {"made", now_utc()},
                            {"every", every},
                            {"columns", kReportColumns},
                            {"runs", list},
                            {"options", run_options(runs)}};
  return page_with(kReportPage, data);
}

}  // namespace ventris
