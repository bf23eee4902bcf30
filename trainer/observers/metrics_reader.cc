// SPDX-License-Identifier: Apache-2.0
#include "trainer/observers/metrics_reader.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "backend/device/error.h"
#include "data/io/json_value.h"
#include "trainer/json_text.h"
#include "trainer/observers/metric_events.h"
#include "trainer/text.h"

namespace ventris {
namespace {

using Json = nlohmann::json;
using Kind = MetricsMark::Kind;

// Members of a line that are not values of their own: those of its place, and the cumulative position.
constexpr const char* kNoSeries[] = {"step", "elapsed_seconds", "target_tokens", "epoch"};

// If a script fails at every validation, more marks would hide those of other kinds.
constexpr std::ptrdiff_t kMaxNoScores = 20;

/// "resumed from checkpoint-00000040.h5 with 2 ranks on 1 host by ventris 0.2.0; the start before was killed;
/// at least 7 steps were computed again".
std::string resumed_text(const Json& line) {
  const auto number = [&](const char* key) {
    int64_t value = 0;
    if (line.contains(key)) data::read_number(line[key], value);
    return value;
  };
  std::string text = fmt::format("resumed from {} with {} on {} by {}", text_in(line, "checkpoint"),
                                 counted(number("ranks"), "rank"), counted(number("hosts"), "host"),
                                 text_in(line, "program"));
  const std::string state = text_in(line, "previous_state");
  const std::string message = text_in(line, "previous_message");
  if (state == "killed") text += "; the start before was killed";
  if (state == "failed")
    text +=
        fmt::format("; the start before failed with exit code {}: {}", number("previous_exit_code"), message);
  if (state == "done" || state == "stopped") text += fmt::format("; the start before ended: {}", message);
  if (const int64_t lost = number("lost_steps"); lost > 0)
    text += fmt::format("; at least {} computed again",
                        lost == 1 ? "1 step was" : counted(lost, "step") + " were");
  return text;
}

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {}

  void add_line(const std::string& text, LogLine end) {
    ++record_.lines;
    const Json line = parse_json(text);
    refuse_newer_format(line, path_);
    int64_t step = 0;
    std::string problem;
    if (end == LogLine::kTooLong) {
      problem = fmt::format("longer than the {} bytes of a line", kMaxJsonBytes);
    } else if (!line.is_object()) {
      problem = "is no JSON object";
    } else if (!line.contains("step") || !data::read_number(line["step"], step) || step < 0) {
      problem = "has no step";
    } else if (!record_.places.empty() && step < record_.places.back().step) {
      problem = fmt::format("goes back to step {} from {}", step, record_.places.back().step);
    }
    if (problem.empty()) {
      add(line, step);
    } else if (end == LogLine::kTorn) {
      record_.torn = true;
    } else if (record_.bad_lines++ == 0) {
      record_.first_bad = fmt::format("{}:{}: {}", path_, record_.lines, problem);
    }
  }

  MetricsRecord take() {
    add_parts(pairs_, record_.shares);
    const auto has_none = [](const MetricsMark& mark) { return mark.kind == Kind::kNoScore; };
    auto left_out = std::count_if(record_.marks.begin(), record_.marks.end(), has_none) - kMaxNoScores;
    std::erase_if(record_.marks, [&](const MetricsMark& mark) { return has_none(mark) && left_out-- > 0; });
    return std::move(record_);
  }

 private:
  void add_value(std::map<std::string, MetricsSeries>& all, const std::string& key, double number) {
    add_value_at(record_.places.size() - 1, all, key, number);
  }

  /// Nothing if the series has a later value.
  void add_value_at(size_t place, std::map<std::string, MetricsSeries>& all, const std::string& key,
                    double number) {
    MetricsSeries& series = all[key];
    if (!series.empty() && record_.place_of(series.back()).step > record_.places[place].step) return;
    if (!series.empty() && record_.place_of(series.back()).step == record_.places[place].step)
      series.pop_back();
    series.push_back({place, number});
  }

  void add_values(std::map<std::string, MetricsSeries>& all, const Json& object,
                  const std::string& prefix = "") {
    double number = 0.0;
    for (const auto& [key, value] : object.items())
      if (data::read_number(value, number)) add_value(all, prefix + key, number);
  }

  void mark(Kind kind, const std::string& text) {
    record_.marks.push_back({kind, record_.places.back(), text});
  }

  void add(const Json& line, int64_t step) {
    place_.step = step;
    place_.time = seconds_of_utc(text_in(line, "time"));
    if (line.contains("elapsed_seconds")) data::read_number(line["elapsed_seconds"], place_.seconds);
    if (line.contains("target_tokens")) data::read_number(line["target_tokens"], place_.target_tokens);
    record_.places.push_back(place_);
    if (const std::string event = text_in(line, "event"); !event.empty()) return add_event(line, event);
    if (text_in(line, "type") == kValidationType) validations_[step] = record_.places.size() - 1;
    Json values = line;
    for (const char* key : kNoSeries) values.erase(key);
    add_values(record_.series, values);
    static const Json kNoMembers = Json::object();
    const auto member = [&](const char* key) -> const Json& {
      const auto found = line.find(key);
      return found != line.end() && found->is_object() ? *found : kNoMembers;
    };
    const Json& pairs_so_far = member("pairs");
    for (const auto& [corpus, pairs] : pairs_so_far.items()) {
      double drawn = 0.0;
      if (data::read_number(pairs, drawn))
        add_value(pairs_, corpus, drawn - std::exchange(drawn_[corpus], drawn));
    }
    const Json& sets = member("sets");
    for (const auto& [set, scores] : sets.items())
      if (scores.is_object()) add_values(record_.series, scores, set + "/");
  }

  void add_event(const Json& line, const std::string& event) {
    const int64_t step = place_.step;
    if (event == kResumedEvent) {
      mark(Kind::kRestart, resumed_text(line));
    } else if (event == kSkippedEvent) {
      mark(Kind::kSkipped, fmt::format("step {} skipped: NaN or Inf in {}", step, text_in(line, "place")));
    } else if (event == kValidScriptEvent) {
      add_script_result(line);
    } else if (event == "removed") {
      mark(Kind::kRemoved, "metrics.jsonl was removed; earlier lines are missing");
    } else if (event == kStageEndEvent) {
      mark(Kind::kStageEnd,
           fmt::format("stage {} ended: {}", text_in(line, "ended_stage"), text_in(line, "end")));
    }
  }

  /// Adds a score of --valid-script as a value at its validation, or its failure as a mark.
  void add_script_result(const Json& line) {
    int64_t of_step = -1;
    if (!line.contains("of_step") || !data::read_number(line["of_step"], of_step)) return;
    const auto validation = validations_.find(of_step);
    if (validation == validations_.end()) return;
    const std::string set = text_in(line, "set");
    double score = 0.0;
    if (line.contains("score") && data::read_number(line["score"], score)) {
      add_value_at(validation->second, record_.series, set + "/script", score);
    } else {
      mark(Kind::kNoScore, fmt::format("--valid-script has no score for step {}, {}: {}", of_step, set,
                                       text_in(line, "error")));
    }
  }

  /// Divides the values by the sum of all series at their place.
  static void add_parts(const std::map<std::string, MetricsSeries>& all,
                        std::map<std::string, MetricsSeries>& parts) {
    std::map<size_t, double> sums;
    for (const auto& [key, series] : all)
      for (const MetricsValue& value : series) sums[value.place] += value.value;
    for (const auto& [key, series] : all) {
      for (const MetricsValue& value : series)
        if (sums[value.place] > 0.0) parts[key].push_back({value.place, value.value / sums[value.place]});
    }
  }

  std::string path_;
  MetricsRecord record_;
  MetricsPlace place_;                          // of the last line
  std::map<int64_t, size_t> validations_;       // their places, by step
  std::map<std::string, double> drawn_;         // pairs of each corpus since the start
  std::map<std::string, MetricsSeries> pairs_;  // the same since the line before
};

}  // namespace

LogLine next_log_line(std::istream& in, std::string& line) {
  line.clear();
  bool too_long = false;
  std::streambuf& bytes = *in.rdbuf();
  for (int c = bytes.sbumpc(); c != std::streambuf::traits_type::eof(); c = bytes.sbumpc()) {
    if (c == '\n') return too_long ? LogLine::kTooLong : LogLine::kWhole;
    too_long = too_long || line.size() == kMaxJsonBytes;
    if (!too_long) line += static_cast<char>(c);
  }
  if (line.empty()) return LogLine::kNone;
  return too_long ? LogLine::kTooLong : LogLine::kTorn;
}

double seconds_of_utc(const std::string& time) {
  constexpr int kSize = 24;
  int year = 0, hours = 0, minutes = 0, seconds = 0, milliseconds = 0, size = 0;
  unsigned month = 0, day = 0;
  const int read = std::sscanf(time.c_str(), "%4d-%2u-%2uT%2d:%2d:%2d.%3dZ%n", &year, &month, &day, &hours,
                               &minutes, &seconds, &milliseconds, &size);
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month),
                                         std::chrono::day(day)};
  if (read != 7 || size != kSize || time.size() != kSize || !date.ok())
    return std::numeric_limits<double>::quiet_NaN();
  const auto days = static_cast<double>(std::chrono::sys_days(date).time_since_epoch().count());
  return days * 86400.0 + hours * 3600.0 + minutes * 60.0 + seconds + milliseconds / 1000.0;
}

const char* name_of(MetricsMark::Kind kind) {
  constexpr std::array kNames = {"restart", "skipped steps", "log removed", "end of stage", "no score"};
  return kNames[static_cast<size_t>(kind)];
}

MetricsRecord read_metrics(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return {};
    fail(ExitCode::kIo, "{}: cannot read the file: {}", path, std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) fail(ExitCode::kBadData, "{}: is not a regular file", path);
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) fail(ExitCode::kIo, "{}: cannot open the file: {}", path, std::strerror(errno));
  Reader reader(path);
  std::string line;
  for (LogLine end = next_log_line(in, line); end != LogLine::kNone; end = next_log_line(in, line))
    reader.add_line(line, end);
  return reader.take();
}

}  // namespace ventris
