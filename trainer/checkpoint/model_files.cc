// SPDX-License-Identifier: Apache-2.0
#include "trainer/checkpoint/model_files.h"

#include <filesystem>
#include <vector>

#include "backend/device/error.h"
#include "data/io/atomic_file.h"
#include "data/io/file_io.h"
#include "trainer/checkpoint/run_folder.h"
#include "trainer/options/model_config.h"

namespace ventris {

namespace fs = std::filesystem;

void write_file_atomically(const std::string& path, const std::string& content) {
  data::AtomicFile file(path);
  file.write(content);
  file.commit();
}

std::string newest_checkpoint(const std::string& folder,
                              const std::function<void(const std::string& path)>& read) {
  std::vector<std::string> paths = list_checkpoints(folder);
  for (; !paths.empty(); paths.pop_back()) {
    try {
      read(paths.back());
      return paths.back();
    } catch (const std::exception&) {
      continue;
    }
  }
  return "";
}

std::string resolve_model_file(const std::string& file_or_dir) {
  std::error_code error;
  if (!fs::is_directory(file_or_dir, error)) return file_or_dir;
  const std::string best = read_best(file_or_dir);
  const bool best_is_gone = !best.empty() && !fs::exists(best, error) && !error;
  if (!best.empty() && !best_is_gone) return best;
  const std::vector<std::string> paths = list_checkpoints(file_or_dir);
  if (best_is_gone) {
    const std::string other =
        newest_checkpoint(file_or_dir, [](const std::string& path) { read_config(data::Hdf5Reader(path)); });
    fail(ExitCode::kMissingInput,
         "{}: is missing, but best.json of its folder names it as the best checkpoint. {}", best,
         other.empty() ? "The folder holds no other that is sound; restore the file"
                       : fmt::format("Restore the file, or give another, such as the newest: {}", other));
  }
  if (paths.empty()) {
    const std::string of_marian = (fs::path(file_or_dir) / "model.npz").string();
    fail(ExitCode::kMissingInput,
         "{}: the folder holds no checkpoint; expected the --model-dir of `ventris train`, "
         "a checkpoint or a weights file{}",
         file_or_dir,
         data::is_there(of_marian)
             ? fmt::format(". It holds a model of Marian: `ventris import --input {}` reads that", of_marian)
             : "");
  }
  return paths.back();
}

bool is_model_format(const std::string& format) {
  return format == kWeightsFormat || format == kRoundedWeightsFormat || format == kCheckpointFormat;
}

TransformerConfig read_config(const data::Hdf5Reader& reader) {
  const std::string format =
      reader.has_attribute("/", "format") ? reader.string_attribute("/", "format") : "";
  if (!is_model_format(format)) {
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

data::TokenizerModels read_tokenizer_models(const data::Hdf5Reader& reader) {
  const auto read = [&](const char* dataset) {
    const std::vector<uint8_t> bytes = reader.read_bytes(dataset);
    return std::string(bytes.begin(), bytes.end());
  };
  return {.target = read(kTokenizerDataset),
          .source = reader.exists(kSourceTokenizerDataset) ? read(kSourceTokenizerDataset) : ""};
}

void check_same_network(const TransformerConfig& in_file, const TransformerConfig& expected,
                        const std::string& path) {
  TransformerConfig comparable = in_file;
  comparable.dropout = expected.dropout;
  comparable.attention_dropout = expected.attention_dropout;
  comparable.activation_dropout = expected.activation_dropout;
  comparable.label_smoothing = expected.label_smoothing;
  if (comparable == expected) return;
  fail(ExitCode::kBadData, "{}: the file holds another model: {}", path, differences(comparable, expected));
}

}  // namespace ventris
