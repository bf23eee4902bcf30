// SPDX-License-Identifier: Apache-2.0
#include "trainer/metrics_cut.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "backend/error.h"
#include "data/files/atomic_file.h"
#include "data/files/file_io.h"
#include "data/files/folder_lock.h"
#include "data/files/json_text.h"
#include "trainer/files/json_number.h"
#include "trainer/files/json_text.h"
#include "trainer/files/lines_from_end.h"
#include "trainer/files/model_files.h"
#include "trainer/metrics.h"

namespace ventris {
namespace {

using Json = nlohmann::json;
using Range = std::pair<int64_t, int64_t>;  // of bytes, [begin, end)

// Older lines without types have only the step and numbers of a validation.
bool is_of_validation(const Json& line) {
  if (line.contains("type")) return line["type"] == kValidationType;
  return std::all_of(line.items().begin(), line.items().end(), [](const auto& item) {
    return item.key() == "step" || item.key().starts_with("valid_");
  });
}

// The end of a stage that a validation brought, which the validation writes again.
bool is_of_stall(const Json& line) {
  return text_in(line, "event") == kStageEndEvent && text_in(line, "end").starts_with("until stalled ");
}

bool is_of_script_for(const Json& line, int64_t step) {
  int64_t of_step = -1;
  return text_in(line, "event") == kValidScriptEvent && line.contains("of_step") &&
         read_number(line["of_step"], of_step) && of_step == step;
}

bool is_written_by_validation(const Json& line, int64_t step) {
  return is_of_validation(line) || is_of_stall(line) || text_in(line, "event") == kPlateauEvent ||
         is_of_script_for(line, step);
}

/// What remains of a log: all bytes up to `size`, then the ranges.
struct Remains {
  int64_t size = 0;
  std::vector<Range> behind = {};  // in order, none begins at the end of what precedes it
  bool has_end = true;             // whether the last line has its line end
  int64_t last_dropped;            // the largest step of the others
};

void add_before(std::vector<Range>& ranges, const FileLine& line) {
  if (!ranges.empty() && ranges.back().first == line.end) {
    ranges.back().first = line.begin;
  } else {
    ranges.emplace_back(line.begin, line.end);
  }
}

Remains find_remains(int fd, const std::string& path, int64_t last_step, bool validates_last_step) {
  Remains remains{.last_dropped = last_step};
  std::vector<Range> ranges;  // of the last step, the last first
  bool is_last = true;
  LinesFromEnd lines(fd, path);
  for (FileLine line; lines.previous(line);) {
    const Json object = data::try_json(line.text);
    refuse_newer_format(object, path);
    int64_t step = 0;
    if (!object.is_object() || !object.contains("step") || !read_number(object["step"], step)) continue;
    if (step > last_step) {
      remains.last_dropped = std::max(remains.last_dropped, step);
      continue;
    }
    const bool is_same = validates_last_step && step == last_step;
    if (is_same && is_written_by_validation(object, step)) continue;
    if (std::exchange(is_last, false)) remains.has_end = line.has_end;
    if (is_same) {
      add_before(ranges, line);
    } else {
      remains.size = line.end;
      break;
    }
  }
  std::reverse(ranges.begin(), ranges.end());
  if (!ranges.empty() && ranges.front().first == remains.size) {
    remains.size = ranges.front().second;
    ranges.erase(ranges.begin());
  }
  remains.behind = std::move(ranges);
  return remains;
}

void copy(int fd, const std::string& path, const Range& range, data::AtomicFile& to) {
  std::vector<char> block(size_t{1} << 20);
  for (int64_t at = range.first; at < range.second;) {
    const int64_t bytes = std::min(range.second - at, static_cast<int64_t>(block.size()));
    data::read_all(fd, block.data(), bytes, at, path);
    to.write(block.data(), static_cast<size_t>(bytes));
    at += bytes;
  }
}

}  // namespace

int64_t cut_metrics(const std::string& path, int64_t last_step, bool validates_last_step) {
  std::error_code not_there;
  if (std::filesystem::is_other(path, not_there)) data::check_is_no_other_thing(path);  // a pipe has no end
  errno = 0;
  const data::FileHandle file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid() && errno == ENOENT) {
    write_file_atomically(path, "");
    return last_step;
  }
  if (!file.valid()) {
    fail(errno == EISDIR ? ExitCode::kIo : ExitCode::kCannotCreate, "{}: cannot read and write the file: {}",
         path, std::strerror(errno));
  }
  const Remains remains = find_remains(file.fd(), path, last_step, validates_last_step);
  if (!data::is_held_or_free(data::folder_of(path)))
    fail(ExitCode::kIo,
         "{}: the folder was moved, removed or replaced at the start; the file is left as it is", path);
  if (!remains.behind.empty()) {
    data::AtomicFile whole(path);
    copy(file.fd(), path, {0, remains.size}, whole);
    for (const Range& range : remains.behind) copy(file.fd(), path, range, whole);
    if (!remains.has_end) whole.write("\n");
    whole.commit();
    return remains.last_dropped;
  }
  std::string problem;
  if (::lseek(file.fd(), 0, SEEK_END) != remains.size && ::ftruncate(file.fd(), remains.size) != 0)
    problem = std::strerror(errno);
  if (problem.empty() && !remains.has_end) problem = data::write_all(file.fd(), "\n", 1, remains.size);
  if (!problem.empty()) fail(ExitCode::kIo, "{}: cannot be cut to {} bytes: {}", path, remains.size, problem);
  return remains.last_dropped;
}

}  // namespace ventris
