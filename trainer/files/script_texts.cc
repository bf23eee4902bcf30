// SPDX-License-Identifier: Apache-2.0
#include "trainer/files/script_texts.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "backend/error.h"
#include "data/files/atomic_folder.h"
#include "trainer/files/model_files.h"

namespace ventris {
namespace {

namespace fs = std::filesystem;

constexpr size_t kScriptStepDigits = 8;  // at least, as in the names of checkpoints
constexpr const char* kLastWritten = "translations.txt";

fs::path texts_folder(const std::string& model_dir) {
  return fs::path(model_dir) / "valid-script";
}

/// Of the name of such a folder; nothing for other names.
std::optional<ScriptTask> task_of(const std::string& name) {
  ScriptTask task;
  const char* const begin = name.data();
  const auto [end, error] = std::from_chars(begin, begin + name.size(), task.step);
  const auto digits = static_cast<size_t>(end - begin);
  if (error != std::errc() || task.step < 0 || digits < kScriptStepDigits || digits + 1 >= name.size() ||
      *end != '-')
    return std::nullopt;
  task.set = name.substr(digits + 1);
  const auto is_of_set = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  return std::ranges::all_of(task.set, is_of_set) ? std::optional(task) : std::nullopt;
}

std::string joined_lines(const std::vector<std::string>& lines) {
  std::string text;
  for (std::string line : lines) {
    std::ranges::replace(line, '\n', ' ');
    text += line + "\n";
  }
  return text;
}

}  // namespace

std::string path_of_script_texts(const std::string& model_dir, const ScriptTask& task) {
  return (texts_folder(model_dir) / fmt::format("{:0{}}-{}", task.step, kScriptStepDigits, task.set))
      .string();
}

void write_script_texts(const std::string& model_dir, const ScriptTask& task, const ScriptTexts& texts) {
  data::AtomicFolder folder(path_of_script_texts(model_dir, task));
  for (const auto& [name, lines] :
       {std::pair("sources.txt", &texts.sources), std::pair("references.txt", &texts.references),
        std::pair(kLastWritten, &texts.translations)})
    write_file_atomically(folder.written_in() + "/" + name, joined_lines(*lines));
  folder.commit(kLastWritten);
}

std::vector<ScriptTask> waiting_script_texts(const std::string& model_dir) {
  std::vector<ScriptTask> waiting;
  std::error_code error;
  for (fs::directory_iterator entry(texts_folder(model_dir), error), end; !error && entry != end;
       entry.increment(error)) {
    if (const auto task = task_of(entry->path().filename().string())) waiting.push_back(*task);
  }
  if (error && error != std::errc::no_such_file_or_directory)
    fail(ExitCode::kIo, "{}: cannot read the folder: {}", texts_folder(model_dir).string(), error.message());
  std::ranges::sort(waiting);
  return waiting;
}

void remove_script_texts(const std::string& model_dir, const ScriptTask& task) {
  std::error_code error;
  const std::string folder = path_of_script_texts(model_dir, task);
  fs::remove_all(folder, error);
  if (error) fail(ExitCode::kIo, "{}: cannot be removed: {}", folder, error.message());
  fs::remove(texts_folder(model_dir), error);  // if it is empty now
}

void remove_later_script_texts(const std::string& model_dir, int64_t last_step) {
  for (const ScriptTask& task : waiting_script_texts(model_dir))
    if (task.step > last_step) remove_script_texts(model_dir, task);
}

}  // namespace ventris
