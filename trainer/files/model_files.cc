#include "trainer/files/model_files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "backend/error.h"
#include "data/files/atomic_file.h"
#include "trainer/files/checkpoint.h"
#include "trainer/files/config_json.h"
#include "trainer/files/json_text.h"

namespace ventris {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kPrefix = "checkpoint-";
constexpr const char* kSuffix = ".h5";
constexpr const char* kBestFile = "best.json";

}  // namespace

void write_file_atomically(const std::string& path, const std::string& content) {
  data::AtomicFile file(path);
  file.write(content);
  file.commit();
}

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
    fail(ExitCode::kIo, "{}: cannot list the folder: {}", model_dir, error.message());
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> paths;
  for (auto& [step, path] : found) paths.push_back(std::move(path));
  return paths;
}

void write_best(const std::string& model_dir, const std::string& checkpoint_path, const std::string& metric,
                double value) {
  const json best = {{data::kFormatKey, data::kBestFormat},
                     {"checkpoint", fs::path(checkpoint_path).filename().string()},
                     {"metric", metric},
                     {"value", value}};
  write_file_atomically((fs::path(model_dir) / kBestFile).string(), json_text(best, 2) + "\n");
}

void remove_best(const std::string& model_dir) {
  std::error_code error;
  fs::remove(fs::path(model_dir) / kBestFile, error);
}

std::string read_best(const std::string& model_dir) {
  const fs::path path = fs::path(model_dir) / kBestFile;
  std::error_code error;
  if (fs::is_other(fs::status(path, error))) {  // a pipe would be waited for
    fail(ExitCode::kBadData, "{}: is not a regular file; remove it", path.string());
  }
  errno = 0;
  std::ifstream file(path);
  if (!file && (errno == ENOENT || errno == ENOTDIR)) return "";
  std::string text(kMostJsonBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  // Not taken for "none": the best checkpoint would be removed with the old ones.
  if (!file.is_open() || file.bad()) {
    fail(ExitCode::kIo, "{}: cannot read the file: {}", path.string(), std::strerror(errno));
  }
  const json best = parse_json(text);
  refuse_newer_format(best, path.string());
  const auto name = best.is_object() ? best.find("checkpoint") : best.end();
  if (name == best.end() || !name->is_string() || step_of_checkpoint(name->get<std::string>()) < 0) {
    fail(ExitCode::kBadData,
         "{}: does not name a checkpoint; remove it, or name the checkpoint to be used itself",
         path.string());
  }
  return (fs::path(model_dir) / name->get<std::string>()).string();
}

void prune_checkpoints(const std::string& model_dir, int keep) {
  VENTRIS_CHECK(keep >= 1, "at least one checkpoint has to stay, not {}", keep);
  const std::vector<std::string> paths = list_checkpoints(model_dir);
  const std::string best = read_best(model_dir);
  for (size_t i = 0; i + static_cast<size_t>(keep) < paths.size(); ++i) {
    if (fs::path(paths[i]).filename() == fs::path(best).filename()) continue;
    std::error_code error;
    fs::remove(paths[i], error);
    if (error) fail(ExitCode::kIo, "{}: cannot remove the old checkpoint: {}", paths[i], error.message());
  }
}

std::string resolve_model_file(const std::string& file_or_dir) {
  std::error_code error;
  if (!fs::is_directory(file_or_dir, error)) return file_or_dir;
  const std::string best = read_best(file_or_dir);
  if (!best.empty()) return best;
  const std::vector<std::string> paths = list_checkpoints(file_or_dir);
  if (paths.empty()) {
    fail(ExitCode::kMissingInput,
         "{}: the folder holds no checkpoint; expected the --model-dir of `ventris train`, a checkpoint or a "
         "weights file",
         file_or_dir);
  }
  return paths.back();
}

TransformerConfig read_config(const data::Hdf5Reader& reader) {
  const std::string format =
      reader.has_attribute("/", "format") ? reader.string_attribute("/", "format") : "";
  if (format != kWeightsFormat && format != kRoundedWeightsFormat && format != kCheckpointFormat) {
    fail(ExitCode::kBadData, "{}: expected a checkpoint or a weights file, but its format is '{}'",
         reader.path(), format);
  }
  return transformer_config_from_json(reader.string_attribute("/", "config"), reader.path());
}

FilePrecision read_precision(const data::Hdf5Reader& reader) {
  const bool rounded =
      reader.has_attribute("/", "format") && reader.string_attribute("/", "format") == kRoundedWeightsFormat;
  if (!rounded) return FilePrecision::kF32;
  return precision_named(reader.string_attribute("/", kPrecisionAttribute), reader.path());
}

std::string read_tokenizer_model(const data::Hdf5Reader& reader) {
  const std::vector<uint8_t> bytes = reader.read_bytes("/tokenizer");
  return {bytes.begin(), bytes.end()};
}

void check_same_network(const TransformerConfig& in_file, const TransformerConfig& expected,
                        const std::string& path) {
  TransformerConfig comparable = in_file;
  comparable.dropout = expected.dropout;
  comparable.attention_dropout = expected.attention_dropout;
  comparable.label_smoothing = expected.label_smoothing;
  if (comparable == expected) return;
  const json there = json::parse(to_json(comparable));
  const json here = json::parse(to_json(expected));
  std::string differences;
  for (const auto& [key, value] : here.items()) {
    if (there.value(key, json()) == value) continue;
    differences += fmt::format("{}{} is {} in the file and {} here", differences.empty() ? "" : "; ", key,
                               there.value(key, json()).dump(), value.dump());
  }
  fail(ExitCode::kBadData, "{}: the model in the file is another one: {}", path, differences);
}

}  // namespace ventris
