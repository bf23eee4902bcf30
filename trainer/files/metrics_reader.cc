// SPDX-License-Identifier: Apache-2.0
#include "trainer/files/metrics_reader.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>

#include "backend/error.h"
#include "data/files/json_text.h"
#include "trainer/files/json_number.h"
#include "trainer/files/json_text.h"
#include "trainer/files/metric_events.h"
#include "trainer/text.h"

namespace ventris {
namespace {

using Json = nlohmann::json;
using Kind = MetricsMark::Kind;

// Members of a line that are not values of their own: those of its place, and the cumulative position.
const std::set<std::string, std::less<>> kNoSeries = {"step", "elapsed_seconds", "target_tokens", "epoch"};
constexpr const char* kSkippedSteps = "skipped_steps";

enum class LineEnd { kWhole, kTooLong, kTorn, kNone };

/// Reads a line of at most kMaxJsonBytes; of a longer one, the beginning, and skips the rest. kTorn: without
/// a line end, at the end of the file.
LineEnd next_line(std::streambuf& in, std::string& line) {
  line.clear();
  bool too_long = false;
  for (int c = in.sbumpc(); c != std::streambuf::traits_type::eof(); c = in.sbumpc()) {
    if (c == '\n') return too_long ? LineEnd::kTooLong : LineEnd::kWhole;
    too_long = too_long || line.size() == kMaxJsonBytes;
    if (!too_long) line += static_cast<char>(c);
  }
  if (line.empty()) return LineEnd::kNone;
  return too_long ? LineEnd::kTooLong : LineEnd::kTorn;
}

/// "resumed from checkpoint-00000040.h5 with 2 ranks on 1 host by ventris 0.2.0; the start before was killed;
/// at least 7 steps were computed again".
std::string resumed_text(const Json& line) {
  const auto number = [&](const char* key) {
    int64_t value = 0;
    if (line.contains(key)) read_number(line[key], value);
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

/// "back from step 120 to 100, on with 0.5 of the learning rate of the schedule: the loss ...".
std::string rollback_text(const Json& line, int64_t step) {
  int64_t from = 0;
  double rate = 1.0;
  if (line.contains("from_step")) read_number(line["from_step"], from);
  if (line.contains("rate")) read_number(line["rate"], rate);
  return fmt::format("back from step {} to {}, on with {:g} of the learning rate of the schedule: {}", from,
                     step, rate, text_in(line, "what"));
}

/// A line of --valid-script.
struct ScriptScore {
  int64_t logged_at = 0;  // the step of the line
  std::optional<double> score;
  std::string error;
};

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {}

  void add_line(const std::string& text, LineEnd end) {
    ++record_.lines;
    const Json line = data::try_json(text);
    refuse_newer_format(line, path_);
    int64_t step = 0;
    const bool is_json = end != LineEnd::kTooLong && line.is_object();
    if (is_json && line.contains("step") && read_number(line["step"], step) && step >= 0) {
      add(line, step);
    } else if (end == LineEnd::kTorn) {
      record_.torn = true;
    } else if (record_.bad_lines++ == 0) {
      record_.first_bad = fmt::format("{}:{}: {}", path_, record_.lines,
                                      end == LineEnd::kTooLong
                                          ? fmt::format("longer than the {} bytes of a line", kMaxJsonBytes)
                                          : std::string(is_json ? "has no step" : "is no JSON object"));
    }
  }

  MetricsRecord take() {
    add_shares();
    add_phases();
    add_scripts();
    return std::move(record_);
  }

 private:
  static MetricsSeries* series_of(std::map<std::string, MetricsSeries>& all, const std::string& key) {
    const auto found = all.find(key);
    if (found != all.end()) return &found->second;
    return all.size() < kMaxMetricsKeys ? &all[key] : nullptr;
  }

  void add_value(std::map<std::string, MetricsSeries>& all, const std::string& key, const Json& value) {
    double number = 0.0;
    if (!read_number(value, number)) return;
    MetricsSeries* series = series_of(all, key);
    if (series == nullptr) {
      ++record_.keys_left_out;
      return;
    }
    const size_t place = record_.places.size() - 1;
    if (!series->empty() && record_.place_of(series->back()).step == record_.places[place].step)
      series->pop_back();
    series->push_back({place, number});
  }

  void mark(Kind kind, const MetricsPlace& place, const std::string& text) {
    record_.marks.push_back({kind, place, text});
  }

  void drop_from(int64_t step) {
    const auto drop = [&](auto& all) {
      for (auto& [key, series] : all)
        while (!series.empty() && record_.place_of(series.back()).step >= step) series.pop_back();
    };
    drop(record_.series);
    drop(pairs_);
    drop(phase_seconds_);
    for (auto& [set, results] : scripts_)
      std::erase_if(results, [&](const auto& result) { return result.second.logged_at >= step; });
    record_.digests.erase(record_.digests.lower_bound(step), record_.digests.end());
    validations_.erase(validations_.lower_bound(step), validations_.end());
    while (!intervals_.empty() && record_.places[intervals_.back()].step >= step) intervals_.pop_back();
    while (!record_.places.empty() && record_.places.back().step >= step) record_.places.pop_back();
    std::erase_if(skipped_, [&](int64_t skipped) { return skipped >= step; });
    std::erase_if(record_.marks, [&](const MetricsMark& mark) {
      return mark.place.step >= step && (mark.kind == Kind::kSkipped || mark.kind == Kind::kStageEnd);
    });
  }

  void add(const Json& line, int64_t step) {
    const bool again = !record_.places.empty() && step < record_.places.back().step;
    const int64_t reached = again ? record_.places.back().step : 0;
    if (again) drop_from(step);
    MetricsPlace place = intervals_.empty() ? MetricsPlace{} : record_.places[intervals_.back()];
    place.step = step;
    place.time = seconds_of_utc(text_in(line, "time"));
    const bool is_interval =
        line.contains("elapsed_seconds") && read_number(line["elapsed_seconds"], place.seconds);
    if (is_interval && line.contains("target_tokens"))
      read_number(line["target_tokens"], place.target_tokens);
    const std::string event = text_in(line, "event");
    if (again && event != "resumed")
      mark(Kind::kRestart, place, fmt::format("steps {} to {} were computed again", step, reached));
    if (is_interval && !again && !has_resumed_ && !intervals_.empty())
      mark_pause(record_.places[intervals_.back()], place);
    record_.places.push_back(place);
    if (is_interval) intervals_.push_back(record_.places.size() - 1);
    if (text_in(line, "type") == kValidationType) validations_[step] = record_.places.size() - 1;
    mark_skipped(line, place);
    if (!event.empty()) return add_event(line, event, place);
    for (const auto& [key, value] : line.items())
      if (!kNoSeries.contains(key)) add_value(record_.series, key, value);
    if (line.contains("pairs") && line["pairs"].is_object())
      for (const auto& [corpus, count] : line["pairs"].items()) add_value(pairs_, corpus, count);
    if (line.contains("phase_seconds") && line["phase_seconds"].is_object())
      for (const auto& [phase, seconds] : line["phase_seconds"].items())
        add_value(phase_seconds_, phase, seconds);
    if (line.contains("sets") && line["sets"].is_object()) {
      for (const auto& [set, scores] : line["sets"].items()) {
        if (!scores.is_object()) continue;
        for (const auto& [key, score] : scores.items()) add_value(record_.series, set + "/" + key, score);
      }
    }
    if (const std::string digest = text_in(line, "digest"); !digest.empty()) record_.digests[step] = digest;
  }

  void mark_pause(const MetricsPlace& before, const MetricsPlace& after) {
    const double paused = (after.time - before.time) - (after.seconds - before.seconds);
    if (!(paused > kUncountedSeconds)) return;  // also without times
    mark(Kind::kRestart, before,
         fmt::format("stopped or computed again for {:.1f} s, between steps {} and {}", paused, before.step,
                     after.step));
  }

  void mark_skipped(const Json& line, const MetricsPlace& place) {
    int64_t skipped = 0;
    if (!line.contains(kSkippedSteps) || !read_number(line[kSkippedSteps], skipped)) return;
    const MetricsSeries& series = record_.of(kSkippedSteps);
    const double before = series.empty() ? 0.0 : series.back().value;
    const int64_t from = series.empty() ? -1 : record_.place_of(series.back()).step;
    const auto marked = std::ranges::count_if(skipped_, [&](int64_t step) { return step > from; });
    const auto more = static_cast<double>(skipped) - before - static_cast<double>(marked);
    if (more > 0) {
      mark(Kind::kSkipped, place,
           fmt::format("{:.0f} {} with NaN or Inf skipped up to step {}", more, more == 1 ? "step" : "steps",
                       place.step));
    }
  }

  void add_event(const Json& line, const std::string& event, const MetricsPlace& place) {
    if (event == "resumed") {
      has_resumed_ = true;
      mark(Kind::kRestart, place, resumed_text(line));
    } else if (event == kRollbackEvent) {
      has_resumed_ = true;
      mark(Kind::kRollback, place, rollback_text(line, place.step));
    } else if (event == "skipped") {
      skipped_.push_back(place.step);
      mark(Kind::kSkipped, place,
           fmt::format("step {} skipped: NaN or Inf in {}", place.step, text_in(line, "place")));
    } else if (event == "repair") {
      const std::string ranks = line.contains("ranks") ? json_text(line["ranks"]) : "";
      mark(Kind::kRepair, place, fmt::format("{} of ranks {} repaired", text_in(line, "part"), ranks));
    } else if (event == kValidScriptEvent) {
      add_script(line, place.step);
    } else if (event == "removed") {
      mark(Kind::kRemoved, place, "metrics.jsonl was removed; earlier lines are missing");
    } else if (event == "stage_end") {
      mark(Kind::kStageEnd, place,
           fmt::format("stage {} ended: {}", text_in(line, "ended_stage"), text_in(line, "end")));
    }
  }

  void add_script(const Json& line, int64_t logged_at) {
    int64_t of_step = -1;
    if (!line.contains("of_step") || !read_number(line["of_step"], of_step) || of_step < 0) return;
    ScriptScore result{.logged_at = logged_at, .score = {}, .error = text_in(line, "error")};
    double score = 0.0;
    if (line.contains("score") && read_number(line["score"], score)) result.score = score;
    const std::string set = text_in(line, "set");
    if (scripts_.size() < kMaxMetricsKeys || scripts_.contains(set))
      scripts_[set][of_step] = std::move(result);
    else
      ++record_.keys_left_out;
  }

  /// The place of the validation of a step, or of the last line up to it, or of the one after it if there is
  /// none; with that step.
  MetricsPlace place_at(int64_t step, size_t lines) const {
    if (const auto found = validations_.find(step); found != validations_.end())
      return record_.places[found->second];
    const auto end = record_.places.begin() + static_cast<std::ptrdiff_t>(lines);
    auto after = std::upper_bound(record_.places.begin(), end, step,
                                  [](int64_t a, const MetricsPlace& place) { return a < place.step; });
    if (after != record_.places.begin()) --after;
    MetricsPlace place = *after;
    if (place.step != step) place.time = std::numeric_limits<double>::quiet_NaN();
    place.step = step;
    return place;
  }

  void add_scripts() {
    const size_t lines = record_.places.size();
    for (const auto& [set, results] : scripts_) {
      for (const auto& [step, result] : results) {
        const MetricsPlace place = place_at(step, lines);
        if (!result.score) {
          record_.missing_scores[set].push_back({place, result.error});
          continue;
        }
        record_.places.push_back(place);
        record_.scripts[set].push_back({record_.places.size() - 1, *result.score});
      }
    }
  }

  void add_shares() {
    std::map<size_t, double> drawn;  // of all corpora since the line before, by place
    std::map<std::string, MetricsSeries> growth;
    for (const auto& [corpus, series] : pairs_) {
      double before = 0.0;
      for (const MetricsValue& value : series) {
        growth[corpus].push_back({value.place, value.value - before});
        drawn[value.place] += value.value - before;
        before = value.value;
      }
    }
    add_parts(growth, drawn, record_.shares);
  }

  /// Divides the values by the sum of all series at their place.
  static void add_parts(const std::map<std::string, MetricsSeries>& all, std::map<size_t, double>& sums,
                        std::map<std::string, MetricsSeries>& parts) {
    for (const auto& [key, series] : all) {
      for (const MetricsValue& value : series) {
        const double sum = sums[value.place];
        if (sum > 0) parts[key].push_back({value.place, value.value / sum});
      }
    }
  }

  void add_phases() {
    std::map<size_t, double> sums;
    for (const auto& [phase, series] : phase_seconds_) {
      for (const MetricsValue& value : series) {
        sums[value.place] += value.value;
        record_.phase_seconds[phase] += value.value;
      }
    }
    add_parts(phase_seconds_, sums, record_.phases);
  }

  std::string path_;
  MetricsRecord record_;
  std::map<int64_t, size_t> validations_;       // their places, by step
  std::vector<size_t> intervals_;               // places of intervals
  std::map<std::string, MetricsSeries> pairs_;  // drawn of each corpus since the start
  std::map<std::string, MetricsSeries> phase_seconds_;
  std::vector<int64_t> skipped_;                                   // steps that events report
  std::map<std::string, std::map<int64_t, ScriptScore>> scripts_;  // by set, then by step of the validation
  bool has_resumed_ = false;                                       // since then events mark the restarts
};

}  // namespace

double seconds_of_utc(std::string_view time) {
  constexpr std::string_view kForm = "0000-00-00T00:00:00.000Z";
  if (time.size() != kForm.size()) return std::numeric_limits<double>::quiet_NaN();
  for (size_t i = 0; i < kForm.size(); ++i) {
    const bool right = kForm[i] == '0' ? time[i] >= '0' && time[i] <= '9' : time[i] == kForm[i];
    if (!right) return std::numeric_limits<double>::quiet_NaN();
  }
  const auto number = [&](size_t begin, size_t size) {
    int value = 0;
    std::from_chars(time.data() + begin, time.data() + begin + size, value);
    return value;
  };
  const std::chrono::year_month_day date{std::chrono::year(number(0, 4)),
                                         std::chrono::month(static_cast<unsigned>(number(5, 2))),
                                         std::chrono::day(static_cast<unsigned>(number(8, 2)))};
  if (!date.ok()) return std::numeric_limits<double>::quiet_NaN();
  const auto days = static_cast<double>(std::chrono::sys_days(date).time_since_epoch().count());
  return days * 86400.0 + number(11, 2) * 3600.0 + number(14, 2) * 60.0 + number(17, 2) +
         number(20, 3) / 1000.0;
}

const char* name_of(MetricsMark::Kind kind) {
  constexpr std::array kNames = {"restart",     "skipped steps", "repair",
                                 "log removed", "end of stage",  "rollback"};
  return kNames[static_cast<size_t>(kind)];
}

const MetricsSeries& MetricsRecord::of(const std::string& key) const {
  static const MetricsSeries kEmpty;
  const auto found = series.find(key);
  return found == series.end() ? kEmpty : found->second;
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
  for (LineEnd end = next_line(*in.rdbuf(), line); end != LineEnd::kNone; end = next_line(*in.rdbuf(), line))
    reader.add_line(line, end);
  return reader.take();
}

}  // namespace ventris
