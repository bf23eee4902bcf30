// SPDX-License-Identifier: Apache-2.0
#include "trainer/checkpoint/run_folder.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "backend/device/error.h"
#include "data/io/atomic_file.h"
#include "data/io/file_format.h"
#include "data/io/file_io.h"
#include "trainer/json_text.h"

namespace ventris {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kPrefix = "checkpoint-";
constexpr const char* kSuffix = ".h5";
constexpr const char* kBestFile = "best.json";

/// Every run begins with a lock and a log, and removes neither.
bool holds_a_run(const std::string& folder) {
  return data::is_there(folder + "/" + kLockFile) && data::is_there(folder + "/metrics.jsonl");
}

}  // namespace

std::string path_of_checkpoint(const std::string& model_dir, int64_t step) {
  return (fs::path(model_dir) / fmt::format("{}{:08}{}", kPrefix, step, kSuffix)).string();
}

int64_t step_of_checkpoint(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  const size_t prefix = std::strlen(kPrefix);
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return -1;
  const std::string digits = name.substr(prefix, name.size() - prefix - std::strlen(kSuffix));
  const bool number = digits.size() >= 8 && digits.size() <= 18 &&
                      std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  return number ? std::stoll(digits) : -1;
}

std::vector<std::string> list_checkpoints(const std::string& model_dir) {
  std::vector<std::pair<int64_t, std::string>> found;
  std::error_code error;
  for (fs::directory_iterator entry(model_dir, error), end; !error && entry != end; entry.increment(error)) {
    const int64_t step = step_of_checkpoint(entry->path().string());
    if (step >= 0) found.emplace_back(step, entry->path().string());
  }
  if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory) {
    if (error == std::errc::not_enough_memory)
      throw std::bad_alloc();  // a limit on the memory of the process
    fail(ExitCode::kIo, "{}: cannot list the folder: {}", model_dir, error.message());
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> paths;
  for (auto& [step, path] : found) paths.push_back(std::move(path));
  return paths;
}

void write_best(const std::string& model_dir, const BestRecord& record) {
  json best = {{data::kFormatKey, data::kBestFormat},
               {"checkpoint", fs::path(record.checkpoint).filename().string()},
               {"metric", record.metric},
               {"value", record.value}};
  if (!record.signature.empty()) best["signature"] = record.signature;
  data::write_file_atomically((fs::path(model_dir) / kBestFile).string(), json_text(best, 2) + "\n");
}

std::string read_best(const std::string& model_dir) {
  const fs::path path = fs::path(model_dir) / kBestFile;
  std::error_code error;
  if (fs::is_other(fs::status(path, error))) {  // a pipe would block
    fail(ExitCode::kBadData, "{}: is not a regular file; remove it", path.string());
  }
  errno = 0;
  std::ifstream file(path);
  if (!file && (errno == ENOENT || errno == ENOTDIR)) return "";
  std::string text(kMaxJsonBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  // Not treated as "none": the best checkpoint would be removed with the old ones.
  if (!file.is_open() || file.bad()) {
    fail(ExitCode::kIo, "{}: cannot read the file: {}", path.string(), std::strerror(errno));
  }
  const json best = parse_json(text);
  refuse_newer_format(best, path.string());
  const auto name = best.is_object() ? best.find("checkpoint") : best.end();
  if (name == best.end() || !name->is_string() || step_of_checkpoint(name->get<std::string>()) < 0 ||
      fs::path(name->get<std::string>()).has_parent_path()) {
    fail(ExitCode::kBadData,
         "{}: does not name a checkpoint of its folder; remove it, or give the checkpoint itself",
         path.string());
  }
  return (fs::path(model_dir) / name->get<std::string>()).string();
}

void refuse_newer_run(const std::string& folder) {
  for (const char* name : {"config.json", kBestFile, "status.json"}) {
    const std::string path = folder + "/" + name;
    std::error_code not_there;
    if (!fs::is_regular_file(path, not_there)) continue;  // a pipe would block
    const std::vector<uint8_t> bytes = data::read_file(path, data::kMaxTextBytes);
    refuse_newer_format(parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}), path);
  }
}

void forget_best_that_is_gone(const std::string& model_dir) {
  const std::string best = read_best(model_dir);
  std::error_code error;
  if (!best.empty() && !data::is_there(best)) fs::remove(fs::path(model_dir) / kBestFile, error);
}

void prune_checkpoints(const std::string& model_dir, int keep) {
  VENTRIS_CHECK(keep >= 1, "at least one checkpoint must be kept, not {}", keep);
  const std::vector<std::string> paths = list_checkpoints(model_dir);
  const std::string best = read_best(model_dir);
  for (size_t i = 0; i + static_cast<size_t>(keep) < paths.size(); ++i) {
    if (fs::path(paths[i]).filename() == fs::path(best).filename()) continue;
    std::error_code error;
    fs::remove(paths[i], error);
    if (error) fail(ExitCode::kIo, "{}: cannot remove the old checkpoint: {}", paths[i], error.message());
  }
}

std::string path_of_config(const std::string& folder) {
  return folder + "/config.json";
}

std::string path_of_new_tokens(const std::string& folder, const std::string& side) {
  return folder + (side.empty() ? "/new-tokens.txt" : "/new-" + side + "-tokens.txt");
}

bool is_name_of_run_file(const std::string& name) {
  static const std::set<std::string> kNames = {".lease",
                                               kLockFile,
                                               "best.json",
                                               "command.txt",
                                               "config.json",
                                               "metrics.jsonl",
                                               "new-tokens.txt",
                                               "new-source-tokens.txt",
                                               "new-target-tokens.txt",
                                               "status.json"};
  constexpr std::string_view kSetAside = ".damaged";
  const std::string whole = name.ends_with(kSetAside) ? name.substr(0, name.size() - kSetAside.size()) : name;
  return kNames.contains(name) || step_of_checkpoint(whole) >= 0;
}

void check_is_no_file_of_a_run(const std::string& path) {
  const std::string folder = data::folder_of(path);
  if (!is_name_of_run_file(data::without_folder(path)) || !holds_a_run(folder)) return;
  fail(ExitCode::kCannotCreate,
       "{}: is a file of the training run in {}, and would be replaced. "
       "Give the output another name or folder",
       path, folder);
}

void check_is_no_run_folder(const std::string& folder) {
  if (!holds_a_run(folder)) return;
  fail(ExitCode::kCannotCreate,
       "{}: holds a training run, whose config.json would be replaced by that of the output. "
       "Give another folder",
       folder);
}

}  // namespace ventris
