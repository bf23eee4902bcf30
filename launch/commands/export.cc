// SPDX-License-Identifier: Apache-2.0
#include "launch/commands/export.h"

#include <fmt/core.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "launch/command.h"
#include "launch/job.h"
#include "launch/output.h"
#include "trainer/exchange/export.h"
#include "trainer/json_text.h"
#include "trainer/program_version.h"

namespace ventris {

std::string export_provenance(const std::string& action, const LoadedModel& model) {
  const std::string name = std::filesystem::path(model.path).filename().string();
  return fmt::format("{}: {} of {}", program_name_and_version(), action, name);
}

void write_export_result(const std::string& output, const std::vector<std::string>& files,
                         const LoadedModel& model, bool json) {
  const int64_t parameters = model.store.parameter_count();
  const size_t tensors = model.store.logical().size();
  if (json) {
    const nlohmann::json result = {{"output", output},
                                   {"model", model.path},
                                   {"files", files},
                                   {"tensors", tensors},
                                   {"parameters", parameters}};
    write_output(json_text(result) + "\n");
  } else {
    write_output(fmt::format("{}: {} parameters in {} tensors, from {}\n", output, grouped(parameters),
                             tensors, model.path));
  }
}

namespace {

struct ExportCommandOptions {
  std::string model;
  std::string output;
  std::optional<ExportFormat> format;
  FilePrecision precision = FilePrecision::kF32;
  bool json = false;
};

/// The requested format, or that of the name of the output.
ExportFormat format_of(const ExportCommandOptions& options) {
  const bool is_safetensors = options.output.ends_with(".safetensors");
  return options.format.value_or(is_safetensors ? ExportFormat::kSafetensors : ExportFormat::kHdf5);
}

int run_export(const ExportCommandOptions& options, const Job& job) {
  const std::unique_ptr<Context> context = make_context(job, "cpu", 1);
  const std::unique_ptr<LoadedModel> model = load_model(*context, options.model, DType::kF32);
  const std::vector<std::string> files = export_model(*context, *model, format_of(options), options.output,
                                                      export_provenance("export", *model), options.precision);
  write_export_result(options.output, files, *model, options.json);
  if (format_of(options) == ExportFormat::kMarian && model->config.pre_norm) {
    say(job,
        "Warning: Marian 1.11.0 to 1.12.43 can score with this pre-norm model and continue to train it, "
        "but its decoder computes another function and translates badly (docs/formats.md); "
        "for Marian, train without --pre-norm");
  }
  return 0;
}

}  // namespace

Command export_command() {
  const auto options = std::make_shared<ExportCommandOptions>();
  Command command;
  command.name = "export";
  command.summary = "exports a trained model for this or another program";
  command.synopsis = "--model FILE|DIR [--format FORMAT] [--precision PRECISION] --output FILE|DIR";
  command.description = {
      "Writes everything that translation needs. 'hdf5' and 'safetensors' are one file with the parameters "
      "by name, such as encoder/layers/0/self_attention/query/weight, the configuration, and the tokenizer; "
      "in f32, translations from them equal those from the checkpoint, byte for byte. "
      "'ctranslate2', 'huggingface' (MarianMT of transformers) "
      "and 'marian' are folders that those programs load directly (docs/formats.md).",
      "Every export contains probes: sentence pairs with the logits that the model computes for them. "
      "'ventris inspect --verify' recomputes the probes of a file of ours."};
  command.examples = {
      {"export --model model --output weights.h5", "The best checkpoint of a run:"},
      {"export --model model --precision int8 --output small.h5", "In a quarter of the size:"},
      {"export --model model --format ctranslate2 --output served", "A folder that CTranslate2 loads:"}};
  command.exit_codes = {{78, "the format cannot express this model"}};
  OptionTable& table = command.options;
  table.group("Input and output");
  table
      .text("model", "FILE|DIR", options->model,
            "A checkpoint, a weights file, or a run folder (its best checkpoint, "
            "or the newest if none was validated).")
      .required = true;
  table
      .text(
          "output", "FILE", options->output,
          "The file (hdf5, safetensors) or the folder (the other formats; created if missing). "
          "An existing file is replaced; in a folder the files of an older export are replaced, all at once, and no others.")
      .required = true;
  table.choice("format", options->format,
               {{"auto", std::nullopt},
                {"hdf5", ExportFormat::kHdf5},
                {"safetensors", ExportFormat::kSafetensors},
                {"ctranslate2", ExportFormat::kCtranslate2},
                {"huggingface", ExportFormat::kHuggingface},
                {"marian", ExportFormat::kMarian}},
               "Format of the output. "
               "'auto': safetensors if the name of the output ends with .safetensors, otherwise hdf5.");
  table.choice(
      "precision", options->precision,
      {{"f32", FilePrecision::kF32}, {"bf16", FilePrecision::kBF16}, {"int8", FilePrecision::kInt8}},
      "Type of the weights and the embedding. 'bf16' takes half of the bytes, 'int8' a quarter: "
      "integers, with one scale for each output. 'huggingface' supports f32 and bf16, 'marian' f32.");
  table.toggle("json", options->json, "Prints one JSON object.");
  command.run = [options](Job& job) { return run_export(*options, job); };
  return command;
}

}  // namespace ventris
