// SPDX-License-Identifier: Apache-2.0
#include "trainer/exchange/import.h"

#include <filesystem>
#include <memory>

#include "backend/device/error.h"
#include "launch/command.h"
#include "launch/commands/export.h"
#include "launch/job.h"
#include "trainer/exchange/export.h"
#include "trainer/exchange/marian_names.h"

namespace ventris {

namespace {

struct ImportCommandOptions {
  ImportOptions from;
  std::string output;
  bool json = false;
};

/// The files that are read beside the input by default.
void check_output(const ImportCommandOptions& options) {
  for (const char* name : {kMarianSourceTokenizer, kMarianTargetTokenizer, kMarianVocabulary,
                           kMarianSourceVocabulary, kMarianTargetVocabulary}) {
    std::error_code error;  // of a missing file
    const auto beside = std::filesystem::path(options.from.input).parent_path() / name;
    if (!std::filesystem::equivalent(beside, options.output, error)) continue;
    fail(ExitCode::kUsage, "--output {}: is also an input of this command; give another file",
         options.output);
  }
}

int run_import(const ImportCommandOptions& options, const Job& job) {
  check_output(options);
  const std::unique_ptr<Context> context = make_context(job, "cpu", 1);
  const std::unique_ptr<LoadedModel> model = import_model(*context, options.from);
  const std::vector<std::string> files = export_model(*context, *model, ExportFormat::kHdf5, options.output,
                                                      export_provenance("import", *model));
  write_export_result(options.output, files, *model, options.json);
  return 0;
}

}  // namespace

Command import_command() {
  const auto options = std::make_shared<ImportCommandOptions>();
  Command command;
  command.name = "import";
  command.summary = "converts a model from another format";
  command.synopsis = "--input FILE --output FILE";
  command.description = {
      "Writes a weights file (HDF5) from a file of 'ventris export --format safetensors', a checkpoint, "
      "a weights file, or a model of Marian (.npz). The format is recognised by the content. "
      "The parameters are those of the file, bit for bit.",
      "A model of Marian needs its SentencePiece model, and its vocabulary if that is a YAML file; or both for "
      "each side, if it has two. With --tied-embeddings-all it is 'train --tie all', with --tied-embeddings "
      "--tie decoder, without either --tie none. It is refused if our model cannot compute the same, for "
      "example with learned positions (docs/formats.md). 'ventris train --init' continues to train it."};
  command.examples = {{"import --input model.safetensors --output weights.h5", "A model exported before:"},
                      {"import --input marian/model.npz --output weights.h5",
                       "A model of Marian, with vocab.yml and source.spm beside it:"},
                      {"import --input marian/model.npz --source-tokenizer-model marian/vocab.en.spm "
                       "--target-tokenizer-model marian/vocab.ja.spm --output weights.h5",
                       "A model of Marian with two vocabularies:"}};
  OptionTable& table = command.options;
  table.group("Input and output");
  table.text("input", "FILE", options->from.input, "The model.").required = true;
  ImportOptions& from = options->from;
  table.text(
      "vocabulary", "FILE", from.both.vocabulary,
      "The YAML vocabulary of a model of Marian, of both sides. Default: vocab.yml beside it or, if that "
      "is missing, the tokens of the SentencePiece model.");
  table.text("source-vocabulary", "FILE", from.source.vocabulary,
             "That of sources alone. Default: source.vocab.yml beside the model, if it is there.");
  table.text("target-vocabulary", "FILE", from.target.vocabulary,
             "That of targets alone. Default: target.vocab.yml beside the model, if it is there.");
  table.text(
      "tokenizer-model", "FILE", from.both.tokenizer,
      "The SentencePiece model of a model of Marian, of both sides. Default: source.spm beside it and, "
      "unless all its embeddings are tied, target.spm.");
  table.text("source-tokenizer-model", "FILE", from.source.tokenizer, "That of sources alone.");
  table.text("target-tokenizer-model", "FILE", from.target.tokenizer, "That of targets alone.");
  table.text("output", "FILE", options->output, "The weights file.").required = true;
  table.toggle("json", options->json, "Prints one JSON object.");
  command.run = [options](Job& job) { return run_import(*options, job); };
  return command;
}

}  // namespace ventris
