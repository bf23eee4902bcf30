// SPDX-License-Identifier: Apache-2.0
#include "trainer/validation/valid_outputs.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <utility>

#include "backend/device/error.h"
#include "data/io/atomic_file.h"
#include "data/io/file_io.h"

namespace ventris {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEnding = ".txt";
constexpr size_t kStepDigits = 8;  // at least, as in the names of checkpoints

fs::path folder_of_outputs(const std::string& model_dir) {
  return fs::path(model_dir) / "valid";
}

/// The step of the name of such a folder, or -1.
int64_t step_of(const std::string& name) {
  int64_t step = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  return name.size() >= kStepDigits && error == std::errc() && end == name.data() + name.size() ? step : -1;
}

void write_lines(const std::string& path, const std::vector<std::string>& lines) {
  data::make_folders(fs::path(path).parent_path().string());
  std::string text;
  for (std::string line : lines) {
    std::ranges::replace(line, '\n', ' ');
    text += line + "\n";
  }
  data::write_file_atomically(path, text);
}

}  // namespace

std::string path_of_valid_output(const std::string& model_dir, int64_t step, const std::string& set) {
  return (folder_of_outputs(model_dir) / fmt::format("{:0{}}", step, kStepDigits) / (set + kEnding)).string();
}

std::string path_of_valid_text(const std::string& model_dir, const std::string& set, ValidSide side) {
  const char* const name = side == ValidSide::kSource ? ".source" : ".reference";
  return (folder_of_outputs(model_dir) / (set + name + kEnding)).string();
}

void write_valid_outputs(const std::string& model_dir, int64_t step, const ValidationSets& sets,
                         const std::vector<std::vector<std::string>>& translations) {
  for (size_t i = 0; i < translations.size(); ++i) {
    const ValidationSet& set = sets.all()[i];
    write_lines(path_of_valid_output(model_dir, step, set.name), translations[i]);
    const auto write = [&](ValidSide side, const auto& line_of) {
      std::vector<std::string> lines;
      for (int64_t pair = 0; pair < std::ssize(translations[i]); ++pair) lines.push_back(line_of(pair));
      write_lines(path_of_valid_text(model_dir, set.name, side), lines);
    };
    write(ValidSide::kReference, set.reference);
    write(ValidSide::kSource, set.source);
  }
}

std::vector<ValidOutput> list_valid_outputs(const std::string& model_dir) {
  std::vector<ValidOutput> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder_of_outputs(model_dir), error), end; !error && entry != end;
       entry.increment(error)) {
    const int64_t step = step_of(entry->path().filename().string());
    std::error_code none;
    for (fs::directory_iterator file(entry->path(), none); step >= 0 && !none && file != end;
         file.increment(none)) {
      const std::string name = file->path().filename().string();
      if (name.ends_with(kEnding) && !name.starts_with('.'))
        found.push_back({.step = step, .set = name.substr(0, name.size() - std::string(kEnding).size())});
    }
  }
  std::ranges::sort(found, {}, [](const ValidOutput& output) { return std::pair(output.step, output.set); });
  return found;
}

void remove_later_valid_outputs(const std::string& model_dir, int64_t step) {
  std::error_code error;
  std::vector<fs::path> later;
  for (fs::directory_iterator entry(folder_of_outputs(model_dir), error), end; !error && entry != end;
       entry.increment(error)) {
    if (step_of(entry->path().filename().string()) > step) later.push_back(entry->path());
  }
  if (error == std::errc::no_such_file_or_directory) return;
  for (const fs::path& folder : later)
    if (!error) fs::remove_all(folder, error);
  if (error) {
    fail(ExitCode::kIo, "{}: cannot remove translations of steps after {}: {}",
         folder_of_outputs(model_dir).string(), step, error.message());
  }
}

}  // namespace ventris
