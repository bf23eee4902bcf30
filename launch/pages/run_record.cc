// SPDX-License-Identifier: Apache-2.0
#include "launch/pages/run_record.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "backend/device/error.h"
#include "comm/affinity.h"
#include "comm/guard.h"
#include "data/io/atomic_file.h"
#include "data/io/file_io.h"
#include "trainer/checkpoint/run_folder.h"
#include "trainer/json_text.h"
#include "trainer/text.h"
#include "trainer/validation/valid_outputs.h"

namespace ventris {

namespace {

/// A regular file: a pipe would block.
std::ifstream opened(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  return std::ifstream(path);
}

/// The number of lines; 0 for a file that cannot be read.
int64_t count_lines(const std::string& path) {
  std::ifstream file = opened(path);
  if (!file.is_open()) return 0;
  const std::istreambuf_iterator<char> end;
  return std::count(std::istreambuf_iterator<char>(file), end, '\n');
}

std::string shortened(std::string line) {
  if (line.size() <= kMaxSampleBytes) return line;
  size_t end = kMaxSampleBytes;  // of a whole character
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0U) == 0x80U) --end;
  return line.substr(0, end) + "…";
}

/// The next line, or the beginning of one that is cut; false at the end.
bool next_line(std::ifstream& file, std::string& line) {
  line.clear();
  for (char c = 0; file.get(c);) {
    if (c == '\n') return true;
    if (line.size() <= kMaxSampleBytes) line += c;
  }
  return !line.empty();
}

/// Those lines, counted from 0 and rising; "" beyond the end of the file.
std::vector<std::string> lines_of(const std::string& path, const std::vector<int64_t>& numbers) {
  std::vector<std::string> found(numbers.size());
  std::ifstream file = opened(path);
  if (!file.is_open()) return found;
  std::string line;
  size_t taken = 0;
  for (int64_t number = 0; taken < numbers.size() && next_line(file, line); ++number)
    if (number == numbers[taken]) found[taken++] = shortened(line);
  return found;
}

}  // namespace

std::vector<int64_t> evenly_spread(int64_t size, int64_t most, bool with_ends) {
  const int64_t count = std::min(size, most);
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < count; ++i) {
    chosen.push_back(with_ends ? count > 1 ? i * (size - 1) / (count - 1) : size - 1
                               : (2 * i + 1) * size / (2 * count));
  }
  return chosen;
}

std::vector<ValidSamples> read_valid_samples(const std::string& model_dir) {
  std::map<std::string, std::vector<int64_t>> steps_of_set;
  for (const ValidOutput& output : list_valid_outputs(model_dir))
    steps_of_set[output.set].push_back(output.step);
  std::vector<ValidSamples> all;
  for (const auto& [set, steps] : steps_of_set) {
    ValidSamples samples;
    samples.set = set;
    const std::vector<int64_t> lines = evenly_spread(
        count_lines(path_of_valid_output(model_dir, steps.back(), set)), kSampledLines, /*with_ends=*/false);
    if (lines.empty()) continue;
    for (const int64_t line : lines) samples.lines.push_back(line + 1);
    samples.sources = lines_of(path_of_valid_text(model_dir, set, ValidSide::kSource), lines);
    samples.references = lines_of(path_of_valid_text(model_dir, set, ValidSide::kReference), lines);
    for (const int64_t i : evenly_spread(std::ssize(steps), kSampledSteps, /*with_ends=*/true)) {
      samples.steps.push_back(steps[static_cast<size_t>(i)]);
      samples.translations.push_back(
          lines_of(path_of_valid_output(model_dir, samples.steps.back(), set), lines));
    }
    all.push_back(std::move(samples));
  }
  return all;
}

namespace {

using Json = nlohmann::json;

void add_options(const Json& object, const std::string& prefix, std::map<std::string, std::string>& options) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object()) {
      add_options(value, prefix + key + ".", options);
    } else if (prefix + key != data::kFormatKey) {
      options[prefix + key] = json_text(value);
    }
  }
}

std::map<std::string, std::string> options_of_folder(const std::string& folder) {
  std::map<std::string, std::string> options;
  const std::string path = path_of_config(folder);
  const std::string text = text_of_run_file(folder, "config.json");
  if (text.empty()) return options;
  const Json config = parse_json(text);
  refuse_newer_format(config, path);
  if (!config.is_object()) {
    fail(ExitCode::kBadData, "{}: is not a JSON object of at most {} bytes; train writes it at each start",
         path, kMaxJsonBytes);
  }
  add_options(config, "", options);
  return options;
}

}  // namespace

std::string text_of_run_file(const std::string& folder, const char* name) {
  const std::string path = folder + "/" + name;
  if (!data::is_there(path)) return "";
  if (std::filesystem::is_other(path)) fail(ExitCode::kBadData, "{}: is not a regular file", path);
  const std::vector<uint8_t> bytes = data::read_file(path, data::kMaxTextBytes);
  std::string text(bytes.begin(), bytes.end());
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

bool was_killed(const StatusRecord& status) {
  return status.state == "running" && status.host == host_name() &&
         state_of_process(static_cast<int>(status.pid)) == "gone";
}

std::string state_text(const std::optional<StatusRecord>& recorded) {
  if (!recorded) return "training has not begun";
  const StatusRecord& status = *recorded;
  if (was_killed(status)) {
    return status.saved_step() < 0
               ? "killed before its first checkpoint"
               : fmt::format("killed; its newest checkpoint is of step {}", status.saved_step());
  }
  if (status.state == "running") {
    return fmt::format("running as process {} on {}", status.pid, status.host);
  }
  return fmt::format("{} at step {}, exit code {}{}", status.state, status.step, status.exit_code,
                     status.retryable ? "; the same command resumes the run" : "");
}

RunRecord read_run(const std::string& folder) {
  const auto has = [&](const char* name) { return data::is_there(folder + "/" + name); };
  if (!has("config.json") && !has("status.json") && !has("metrics.jsonl")) {
    fail(ExitCode::kMissingInput,
         "{}: {}; expected a folder that 'ventris train --model-dir' made, with metrics.jsonl", folder,
         !data::is_there(folder)   ? "does not exist"
         : data::is_folder(folder) ? "is a folder, but not of a training run"
                                   : "is a file, not a run folder");
  }
  return {.folder = folder,
          .status = read_status(folder),
          .command = text_of_run_file(folder, "command.txt"),
          .options = options_of_folder(folder),
          .metrics = read_metrics(folder + "/metrics.jsonl"),
          .samples = read_valid_samples(folder)};
}

std::string warning_of(const RunRecord& run) {
  if (run.metrics.bad_lines == 0) return "";
  return fmt::format("{} of metrics.jsonl left out, the first: {}",
                     counted(run.metrics.bad_lines, "bad line"), run.metrics.first_bad);
}

}  // namespace ventris
