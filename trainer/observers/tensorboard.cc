// SPDX-License-Identifier: Apache-2.0
#include "trainer/observers/tensorboard.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "backend/device/error.h"
#include "data/io/file_io.h"
#include "data/io/json_text.h"
#include "data/io/json_value.h"
#include "trainer/json_text.h"
#include "trainer/observers/event_file.h"
#include "trainer/observers/metric_events.h"
#include "trainer/observers/metrics_reader.h"

namespace ventris {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

// TensorBoard reads files with "tfevents" in their names in the order of these, and leaves one when the next
// has values.
constexpr std::string_view kNameBegin = "events.out.tfevents.";
constexpr std::string_view kNameEnd = ".ventris";

/// The number in the name of an event file of ours, or -1.
int64_t number_of(const std::string& name) {
  if (!name.starts_with(kNameBegin) || !name.ends_with(kNameEnd)) return -1;
  const char* const end = name.data() + name.size() - kNameEnd.size();
  int64_t number = -1;
  const auto [stopped, error] = std::from_chars(name.data() + kNameBegin.size(), end, number);
  return error == std::errc() && stopped == end ? number : -1;
}

/// The event files of ours in a folder, by their numbers.
std::map<int64_t, std::string> event_files_in(const std::string& folder) {
  std::map<int64_t, std::string> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const int64_t number = number_of(at->path().filename().string());
    if (number >= 0) found.emplace(number, at->path().string());
  }
  if (error) fail(ExitCode::kIo, "{}: cannot read the folder: {}", folder, error.message());
  return found;
}

/// Adds the numbers of an object below `prefix`.
void add_numbers(const OrderedJson& object, const std::string& prefix, std::vector<EventScalar>& scalars) {
  for (const auto& [key, value] : object.items()) {
    double number = 0.0;
    if (value.is_object()) {
      add_numbers(value, prefix + key + "/", scalars);
    } else if (data::read_number(value, number)) {
      constexpr double kMax = std::numeric_limits<float>::max();
      scalars.push_back({prefix + key, static_cast<float>(std::clamp(number, -kMax, kMax))});
    }
  }
}

/// What is written of a line of the log; without scalars: nothing.
Event event_of(const OrderedJson& line) {
  Event event{.time = seconds_of_utc(text_in(line, "time"))};
  if (std::isnan(event.time)) event.time = 0.0;
  if (!line.contains("step") || !data::read_number(line["step"], event.step)) return event;
  if (!line.contains("event")) {
    OrderedJson numbers = line;
    numbers.erase("step");
    add_numbers(numbers, "", event.scalars);
  } else if (text_in(line, "event") == kValidScriptEvent && line.contains("of_step") &&
             data::read_number(line["of_step"], event.step) && line.contains("score")) {
    add_numbers(OrderedJson::object({{text_in(line, "set"), line["score"]}}), "valid_script/", event.scalars);
  }
  return event;
}

}  // namespace

TensorBoardLog::TensorBoardLog(const std::string& model_dir) {
  const std::string folder = model_dir + "/tensorboard";
  if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST)
    fail(ExitCode::kCannotCreate, "{}: cannot create the folder: {}", folder, std::strerror(errno));
  const std::map<int64_t, std::string> before = event_files_in(folder);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  // After those of earlier starts, whatever the clock says.
  const int64_t number = std::max<int64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count(),
                                           before.empty() ? 0 : before.rbegin()->first + 1);
  path_ = fmt::format("{}/{}{:019d}{}", folder, kNameBegin, number, kNameEnd);
  file_.open(path_, std::ios::binary | std::ios::app);
  if (!file_) fail(ExitCode::kCannotCreate, "{}: cannot create the file: {}", path_, std::strerror(errno));
  append(event_file_begin(std::chrono::duration<double>(now).count()));
  std::ifstream log(model_dir + "/metrics.jsonl", std::ios::binary);
  for (std::string line; std::getline(log, line);) {
    if (line.size() > kMaxJsonBytes) continue;
    const OrderedJson object = data::try_ordered_json(line);
    if (object.is_object()) write_line(object);
  }
  for (const auto& [_, path] : before) {
    if (::unlink(path.c_str()) != 0)
      fail(ExitCode::kIo, "{}: cannot be removed: {}", path, std::strerror(errno));
  }
}

void TensorBoardLog::write_line(const OrderedJson& line) {
  const Event event = event_of(line);
  if (!event.scalars.empty()) append(event_frame(event));
}

void TensorBoardLog::append(const std::string& frames) {
  file_ << frames << std::flush;
  if (file_) return;
  const int error = errno;
  fail(ExitCode::kIo,
       "{}: cannot write {} bytes at its end: {}.{} Free space, or train without --tensorboard", path_,
       frames.size(), std::strerror(error), data::room_at(path_));
}

}  // namespace ventris
