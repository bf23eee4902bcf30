#include "trainer/export.h"

#include <filesystem>

#include "backend/error.h"
#include "trainer/export_formats.h"
#include "trainer/model_files.h"
#include "trainer/probe.h"
#include "trainer/safetensors_model.h"

namespace ventris {
namespace {

namespace fs = std::filesystem;

void make_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error || !fs::is_directory(folder)) {
    fail(ExitCode::kCannotCreate, "{}: cannot make the folder: {}", folder,
         error ? error.message() : "a file has this name");
  }
}

}  // namespace

void refuse_export(const LoadedModel& model, const std::string& format, const std::string& what) {
  fail(ExitCode::kBadConfiguration,
       "{}: the format '{}' cannot express this model: it has {}. hdf5, safetensors and ctranslate2 can",
       model.path, format, what);
}

std::string write_in_folder(const std::string& folder, const std::string& name, const std::string& content) {
  const std::string path = (fs::path(folder) / name).string();
  write_file_atomically(path, content);
  return path;
}

std::string_view bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

std::vector<std::string> pieces_of(const data::Tokenizer& tokenizer) {
  std::vector<std::string> pieces;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) pieces.push_back(tokenizer.piece(id));
  return pieces;
}

std::vector<std::string> export_model(Context& context, LoadedModel& model, ExportFormat format,
                                      const std::string& output, const std::string& provenance) {
  const std::string probes = to_json(make_probes(context, model));
  if (format == ExportFormat::kHdf5) {
    save_weights(context, output, model.config, model.store, model.tokenizer->model(), provenance, probes,
                 model.averaged_checkpoints);
    return {output};
  }
  if (format == ExportFormat::kSafetensors) {
    save_safetensors(context, output, model, provenance, probes);
    return {output};
  }
  make_folder(output);
  const auto write = [&] {
    if (format == ExportFormat::kCtranslate2) return export_ctranslate2(context, model, output);
    if (format == ExportFormat::kHuggingface) return export_huggingface(context, model, output);
    return export_marian(context, model, output);
  };
  std::vector<std::string> files = write();
  files.push_back(write_in_folder(output, "probe.json", probes + "\n"));
  return files;
}

}  // namespace ventris
