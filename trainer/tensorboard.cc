// SPDX-License-Identifier: Apache-2.0
#include "trainer/tensorboard.h"

#include <fcntl.h>
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
#include <nlohmann/json.hpp>
#include <vector>

#include "backend/error.h"
#include "data/files/disk_room.h"
#include "data/files/file_io.h"
#include "data/files/json_text.h"
#include "trainer/files/json_number.h"
#include "trainer/files/json_text.h"
#include "trainer/files/lines_from_end.h"
#include "trainer/files/metric_events.h"
#include "trainer/files/metrics_reader.h"

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

/// The event files of ours in a folder, in the order of their numbers.
std::vector<std::string> event_files_in(const std::string& folder) {
  std::vector<std::pair<int64_t, std::string>> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (const int64_t number = number_of(name); number >= 0) found.emplace_back(number, at->path().string());
  }
  if (error && error != std::errc::no_such_file_or_directory)
    fail(ExitCode::kIo, "{}: cannot read the folder: {}", folder, error.message());
  std::sort(found.begin(), found.end());
  std::vector<std::string> paths;
  for (auto& [number, path] : found) paths.push_back(std::move(path));
  return paths;
}

void sync_names(const std::string& folder) {
  if (const int error = data::sync_folder(folder); error != 0)
    fail(ExitCode::kIo, "{}: cannot sync the folder: {}", folder, std::strerror(error));
}

/// The JSON of a line, with the order of its keys; null for none.
OrderedJson parsed(const std::string& line) {
  if (line.size() > kMaxJsonBytes) return {};
  return data::try_ordered_json(line);
}

/// Adds the numbers of an object below `prefix`.
void add_numbers(const OrderedJson& object, const std::string& prefix, std::vector<EventScalar>& scalars) {
  for (const auto& [key, value] : object.items()) {
    double number = 0.0;
    if (value.is_object()) {
      add_numbers(value, prefix + key + "/", scalars);
    } else if (read_number(value, number)) {
      constexpr double kMax = std::numeric_limits<float>::max();
      scalars.push_back({prefix + key, static_cast<float>(std::clamp(number, -kMax, kMax))});
    }
  }
}

/// What is written of a line of the log; without scalars: nothing.
Event event_of(const OrderedJson& line) {
  Event event{.time = seconds_of_utc(text_in(line, "time"))};
  if (std::isnan(event.time)) event.time = 0.0;  // of older versions
  if (!line.contains("step") || !read_number(line["step"], event.step)) return event;
  if (!line.contains("event")) {
    OrderedJson numbers = line;
    numbers.erase("step");
    add_numbers(numbers, "", event.scalars);
  } else if (text_in(line, "event") == kValidScriptEvent && line.contains("of_step") &&
             read_number(line["of_step"], event.step) && line.contains("score")) {
    add_numbers(OrderedJson::object({{text_in(line, "set"), line["score"]}}), std::string(kLateTags),
                event.scalars);
  }
  return event;
}

}  // namespace

std::string path_of_events(const std::string& model_dir) {
  return model_dir + "/tensorboard";
}

int64_t cut_event_files(const std::string& model_dir, int64_t last_step) {
  std::vector<std::string> paths = event_files_in(path_of_events(model_dir));
  for (; !paths.empty(); paths.pop_back()) {
    const std::string& path = paths.back();
    const EventFilePart part = find_events_up_to(path, last_step);
    const bool is_empty = part.bytes == 0;
    const bool done = is_empty ? ::unlink(path.c_str()) == 0
                               : part.bytes == part.file_bytes || ::truncate(path.c_str(), part.bytes) == 0;
    if (!done) {
      fail(ExitCode::kIo, "{}: cannot be cut to {} bytes: {}. Make it writable, or remove it", path,
           part.bytes, std::strerror(errno));
    }
    if (!is_empty) return part.last_step;
  }
  return -1;
}

TensorBoardLog::TensorBoardLog(const std::string& model_dir, int64_t last_step, bool validates_last_step) {
  const std::string folder = path_of_events(model_dir);
  const int64_t left = cut_event_files(model_dir, validates_last_step ? last_step - 1 : last_step);
  if (::mkdir(folder.c_str(), 0777) == 0) {
    sync_names(model_dir);
  } else if (errno != EEXIST) {
    fail(ExitCode::kCannotCreate, "{}: cannot create the folder: {}", folder, std::strerror(errno));
  }
  const auto now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  // After those of earlier starts, whatever the clock says.
  auto number = static_cast<int64_t>(now);
  if (const std::vector<std::string> before = event_files_in(folder); !before.empty())
    number = std::max(number, number_of(data::without_folder(before.back())) + 1);
  path_ = fmt::format("{}/{}{:010d}{}", folder, kNameBegin, number, kNameEnd);
  file_.open(path_, std::ios::binary | std::ios::app);
  if (!file_) fail(ExitCode::kCannotCreate, "{}: cannot create the file: {}", path_, std::strerror(errno));
  sync_names(folder);
  append(event_file_begin(now, left + 1));
  catch_up(model_dir + "/metrics.jsonl", left);
}

void TensorBoardLog::catch_up(const std::string& log, int64_t after_step) {
  int64_t begin = 0;
  {
    const data::FileHandle file = data::open_to_read(log);
    if (!file.valid()) data::fail_opening(log, errno);
    LinesFromEnd lines(file.fd(), log);
    for (FileLine line; begin == 0 && lines.previous(line);) {
      const OrderedJson object = parsed(line.text);
      if (!object.is_object() || object.contains("event")) continue;
      const Event event = event_of(object);
      if (!event.scalars.empty() && event.step <= after_step) begin = line.end;
    }
  }
  std::ifstream in(log, std::ios::binary);
  in.seekg(begin);
  for (std::string line; std::getline(in, line);) {
    const OrderedJson object = parsed(line);
    if (object.is_object()) write_line(object);
  }
}

void TensorBoardLog::write_line(const OrderedJson& line) {
  write(event_of(line));
}

void TensorBoardLog::write(const Event& event) {
  if (!event.scalars.empty() || !event.texts.empty() || !event.images.empty()) append(event_frame(event));
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
