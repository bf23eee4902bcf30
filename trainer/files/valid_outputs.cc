#include "trainer/files/valid_outputs.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>

#include "backend/error.h"
#include "data/files/file_io.h"
#include "trainer/files/model_files.h"

namespace ventris {
namespace {

namespace fs = std::filesystem;

constexpr size_t kDigits = 8;  // at least, as in the names of checkpoints

fs::path folder_of_outputs(const std::string& model_dir) {
  return fs::path(model_dir) / "valid";
}

/// The step of the name of such a folder, or -1.
int64_t step_of(const std::string& name) {
  int64_t step = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  return name.size() >= kDigits && error == std::errc() && end == name.data() + name.size() ? step : -1;
}

}  // namespace

void write_valid_output(const std::string& model_dir, int64_t step, const std::string& set,
                        const std::vector<std::string>& translations) {
  const fs::path folder = folder_of_outputs(model_dir) / fmt::format("{:0{}}", step, kDigits);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    fail(ExitCode::kCannotCreate, "{}: cannot create the folder: {}", folder.string(), error.message());
  std::string text;
  for (const std::string& line : translations) text += line + "\n";
  write_file_atomically((folder / (set + ".txt")).string(), text);
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
