#include "launch/report_page.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "backend/error.h"
#include "launch/page_data.h"
#include "launch/report_page_template.h"
#include "trainer/program_version.h"
#include "trainer/text.h"

namespace ventris {
namespace {

using Json = nlohmann::ordered_json;

Json number_or_null(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

/// Columns of values and of the places where they were logged.
Json json_of(const MetricsRecord& record, const MetricsSeries& all) {
  const MetricsSeries series = thinned(record, all, kReportColumns);
  Json steps = Json::array(), seconds = steps, tokens = steps, times = steps, values = steps;
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

Json json_of(const MetricsRecord& record, const std::map<std::string, MetricsSeries>& all) {
  Json object = Json::object();
  for (const auto& [key, series] : all)
    if (!series.empty()) object[key] = json_of(record, series);
  return object;
}

Json marks_of(const MetricsRecord& record) {
  Json marks = Json::array();
  for (size_t i = 0; i < std::min(record.marks.size(), kReportMarks); ++i) {
    const MetricsMark& mark = record.marks[i];
    marks.push_back({{"kind", name_of(mark.kind)},
                     {"step", mark.place.step},
                     {"seconds", mark.place.seconds},
                     {"tokens", mark.place.target_tokens},
                     {"time", number_or_null(mark.place.time)},
                     {"text", mark.text}});
  }
  return marks;
}

Json samples_of(const RunRecord& run) {
  Json list = Json::array();
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

Json json_of(const RunRecord& run) {
  const MetricsRecord& metrics = run.metrics;
  Json object = {{"name", run.folder},
                 {"state", state_text(run.status)},
                 {"message", run.status ? run.status->message : ""},
                 {"failed", run.status && (run.status->state == "failed" || was_killed(*run.status))},
                 {"command", run.command},
                 {"lines", metrics.lines},
                 {"warning", warning_of(run)},
                 {"torn", metrics.torn},
                 {"marks", marks_of(metrics)},
                 {"marks_left_out", metrics.marks.size() - std::min(metrics.marks.size(), kReportMarks)},
                 {"series", json_of(metrics, metrics.series)},
                 {"shares", json_of(metrics, metrics.shares)},
                 {"phases", json_of(metrics, metrics.phases)},
                 {"phase_seconds", metrics.phase_seconds},
                 {"samples", samples_of(run)}};
  return object;
}

Json options_of(const std::vector<RunRecord>& runs) {
  std::set<std::string> names;
  for (const RunRecord& run : runs)
    for (const auto& [name, value] : run.options) names.insert(name);
  const auto differing = differing_options(runs);
  Json options = Json::array();
  for (const std::string& name : names) {
    Json values = Json::array();
    for (const RunRecord& run : runs) {
      const auto found = run.options.find(name);
      values.push_back(found == run.options.end() ? Json(nullptr) : Json(found->second));
    }
    options.push_back({{"name", name}, {"values", values}, {"differs", differing.contains(name)}});
  }
  return options;
}

}  // namespace

MetricsSeries thinned(const MetricsRecord& record, const MetricsSeries& series, size_t columns) {
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

std::string report_page(const std::vector<RunRecord>& runs, const std::string& stamp) {
  Json list = Json::array();
  for (const RunRecord& run : runs) list.push_back(json_of(run));
  const Json data = {{"program", program_name_and_version()},
                     {"made", now_utc()},
                     {"stamp", stamp},
                     {"columns", kReportColumns},
                     {"runs", list},
                     {"options", options_of(runs)}};
  std::string begin = kPageBegin;
  constexpr std::string_view kLastSource = "img-src data:";
  if (!stamp.empty()) {
    const size_t at = begin.find(kLastSource);
    VENTRIS_CHECK(at != std::string::npos, "the page has another policy");
    begin.insert(at + kLastSource.size(), "; connect-src 'self'");
  }
  return begin + kReportPageHead + page_data(data) + kReportPageTail + kReportPageSamples + kReportPageScript;
}

}  // namespace ventris
