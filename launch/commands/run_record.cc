// SPDX-License-Identifier: Apache-2.0
#include "launch/commands/run_record.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "backend/device/error.h"
#include "comm/affinity.h"
#include "comm/guard.h"
#include "data/io/atomic_file.h"
#include "data/io/file_io.h"
#include "trainer/checkpoint/run_folder.h"
#include "trainer/json_text.h"
#include "trainer/text.h"

namespace ventris {
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
