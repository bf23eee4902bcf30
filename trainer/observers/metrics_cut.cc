// SPDX-License-Identifier: Apache-2.0
#include "trainer/observers/metrics_cut.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "backend/device/error.h"
#include "data/io/atomic_file.h"
#include "data/io/file_io.h"
#include "data/io/folder_lock.h"
#include "data/io/json_value.h"
#include "trainer/json_text.h"
#include "trainer/observers/metric_events.h"
#include "trainer/observers/metrics_reader.h"

namespace ventris {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

bool is_of_script_for(const Json& line, int64_t step) {
  int64_t of_step = -1;
  return text_in(line, "event") == kValidScriptEvent && line.contains("of_step") &&
         data::read_number(line["of_step"], of_step) && of_step == step;
}

/// The lines that the validation of a step writes; also the end of a stage that it brought.
bool is_written_by_validation(const Json& line, int64_t step) {
  const std::string event = text_in(line, "event");
  return text_in(line, "type") == kValidationType || event == kPlateauEvent || is_of_script_for(line, step) ||
         (event == kStageEndEvent && text_in(line, "end").starts_with("until stalled "));
}

}  // namespace

int64_t cut_metrics(const std::string& path, int64_t last_step, bool validates_last_step) {
  std::error_code error;
  if (fs::is_other(path, error)) data::check_replaceable(path);  // a pipe has no end
  if (fs::is_directory(path, error))
    fail(ExitCode::kIo, "{}: cannot read the file: {}", path, std::strerror(EISDIR));
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in && errno == ENOENT) {
    data::write_file_atomically(path, "");
    return last_step;
  }
  if (!in) fail(ExitCode::kCannotCreate, "{}: cannot read the file: {}", path, std::strerror(errno));

  std::string kept;
  std::string damaged;       // lines without a step, which stay if one that stays follows
  bool is_prefix = true;     // whether the file begins with what is kept
  bool has_dropped = false;  // a line before
  int64_t last_dropped = last_step;
  std::string text;
  for (LogLine end = next_log_line(in, text); end != LogLine::kNone; end = next_log_line(in, text)) {
    if (end == LogLine::kTooLong) {
      has_dropped = true;
      continue;
    }
    const Json line = parse_json(text);
    refuse_newer_format(line, path);
    int64_t step = 0;
    if (!line.is_object() || !line.contains("step") || !data::read_number(line["step"], step)) {
      damaged += text + '\n';
    } else if (step > last_step ||
               (validates_last_step && step == last_step && is_written_by_validation(line, step))) {
      last_dropped = std::max(last_dropped, step);
      has_dropped = true;
    } else {
      is_prefix = is_prefix && !has_dropped && end == LogLine::kWhole;
      kept += damaged + text + '\n';
      damaged.clear();
    }
  }
  if (in.bad()) fail(ExitCode::kIo, "{}: cannot read the file: {}", path, std::strerror(errno));
  if (is_prefix && !has_dropped && damaged.empty()) return last_dropped;
  if (!data::is_held_or_free(data::folder_of(path)))
    fail(ExitCode::kIo,
         "{}: the folder was moved, removed or replaced at the start; the file is left as it is", path);
  if (is_prefix) {
    fs::resize_file(path, kept.size(), error);
    if (error) fail(ExitCode::kIo, "{}: cannot be cut to {} bytes: {}", path, kept.size(), error.message());
  } else {
    data::write_file_atomically(path, kept);
  }
  return last_dropped;
}

}  // namespace ventris
