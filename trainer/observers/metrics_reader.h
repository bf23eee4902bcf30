// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ventris {

/// Seconds since 1970 of a time as now_utc() writes it, or NaN.
double seconds_of_utc(const std::string& time);

/// Where in a run a value was logged.
struct MetricsPlace {
  int64_t step = 0;
  double seconds = 0.0;        // of training: elapsed_seconds of the last interval up to here
  double target_tokens = 0.0;  // trained on, likewise
  double time = 0.0;           // seconds since 1970, UTC; NaN if the line has no time
};

struct MetricsValue {
  size_t place = 0;  // index in MetricsRecord::places
  double value = 0.0;
};
using MetricsSeries = std::vector<MetricsValue>;  // at most one value for each step, steps increase

/// Something that happened during a run.
struct MetricsMark {
  enum class Kind { kRestart, kSkipped, kRemoved, kStageEnd, kNoScore };
  Kind kind = Kind::kRestart;
  MetricsPlace place;
  std::string text;
};

/// The name of a kind of mark: "restart", "skipped steps", "log removed", "end of stage", "no score".
const char* name_of(MetricsMark::Kind kind);

/// metrics.jsonl of a run folder (docs/formats.md), as columns.
struct MetricsRecord {
  std::vector<MetricsPlace> places;  // one for each line that counts, in the order of the file
  /// By key: "loss", "valid_bleu", of a set "NAME/bleu", of --valid-script "NAME/script", at its validation;
  /// not those of MetricsPlace and other events.
  std::map<std::string, MetricsSeries> series;
  std::map<std::string, MetricsSeries> shares;  // by corpus: its part of the pairs since the line before
  std::vector<MetricsMark> marks;               // of those without a score the newest 20
  int64_t lines = 0;
  int64_t bad_lines = 0;       // no JSON, without a step, or back in steps; they are left out
  std::string first_bad = {};  // where and why
  bool torn = false;           // the last line was not written to its end, as in a run that was killed

  const MetricsPlace& place_of(const MetricsValue& value) const { return places[value.place]; }
};

/// How a line of a log ends: kTorn without a line end, at the end of the file; kNone if there is none left.
enum class LogLine { kWhole, kTooLong, kTorn, kNone };
/// Reads a line of at most kMaxJsonBytes, without its line end; of a longer one, the beginning, and skips the
/// rest.
LogLine next_log_line(std::istream& in, std::string& line);

/// Reads the file line by line; memory is about 200 bytes for each. A line of an earlier step than the one
/// before is a bad line. Returns an empty record if there is no file. Throws Error kBadData for a path that
/// is no regular file, kIo, and data::NewerFormat.
MetricsRecord read_metrics(const std::string& path);

}  // namespace ventris
