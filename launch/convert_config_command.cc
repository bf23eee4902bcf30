// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "backend/error.h"
#include "launch/command.h"
#include "launch/config_file.h"
#include "launch/foreign/settings_file.h"
#include "launch/job.h"
#include "launch/marian_reader.h"
#include "launch/output.h"
#include "trainer/text.h"

namespace ventris {

namespace {

enum class Purpose { kAuto, kTrain, kTranslate };

struct ConvertConfigCommandOptions {
  std::vector<std::string> files;
  Purpose purpose = Purpose::kAuto;
};

int run_convert_config(const ConvertConfigCommandOptions& options, Job& job) {
  if (options.files.size() != 1) fail(ExitCode::kUsage, "expected is one FILE, not {}", options.files.size());
  const std::string& path = options.files.front();
  const std::string yaml = read_config("", path);
  if (!is_yaml(yaml)) {
    fail(ExitCode::kBadConfiguration,
         "{}: is no YAML; expected are lines of the form 'option: value', as in the YAML files of Marian",
         path);
  }
  const MarianUse use = options.purpose == Purpose::kAuto    ? marian_use_of(yaml, path)
                        : options.purpose == Purpose::kTrain ? MarianUse::kTraining
                                                             : MarianUse::kDecoding;
  const Conversion conversion = convert_marian(use, yaml, path);
  const bool trains = use == MarianUse::kTraining;
  std::string text = fmt::format("# Converted from {} by 'ventris convert-config'.\n", shell_word(path));
  if (!conversion.prepare.empty())
    text += fmt::format("#   ventris prepare {} --output corpus.h5\n", conversion.prepare);
  text += trains ? "#   ventris train --config THIS_FILE --corpus corpus.h5 --model-dir model\n"
                 : "#   ventris translate --config THIS_FILE --model MODEL < source > translation\n";
  for (const auto& [name, value] : conversion.options) text += fmt::format("{} = {}\n", name, value);
  write_output(text);
  for (const ConversionRemark::Kind kind :
       {ConversionRemark::Kind::kMissing, ConversionRemark::Kind::kDiffers,
        ConversionRemark::Kind::kNeedless}) {
    for (const ConversionRemark& remark : conversion.remarks) {
      if (remark.kind == kind) say(job, line_of(remark));
    }
  }
  return 0;
}

}  // namespace

Command convert_config_command() {
  const auto options = std::make_shared<ConvertConfigCommandOptions>();
  Command command;
  command.name = "convert-config";
  command.summary = "converts a configuration of Marian to a file of --config";
  command.synopsis = "FILE [--for train|translate] > options.ini";
  command.description = {
      "Reads a YAML file of Marian, of 'marian' or 'marian-decoder', and writes the options of 'ventris train' "
      "or 'ventris translate' that do the same, for --config. Options that the file leaves out have Marian's "
      "defaults, those of 1.12. Paths of text and vocabularies become a line of 'ventris prepare', as a "
      "comment.",
      "On the standard error there is a line for each option that does not have the same meaning here, with "
      "the line of the file. no counterpart: it changes what Marian computes, and is left out. differs: it is "
      "converted, with another meaning. not needed: nothing depends on it here. Other options, and those with "
      "Marian's default that have no effect, have none.",
      "'ventris train --config' and 'ventris translate --config' read such a YAML file directly, but refuse "
      "options without a counterpart, unless the command line gives what makes up for them."};
  command.examples = {{"convert-config marian.yml > options.ini", "To edit and give to train:"},
                      {"train --config marian.yml --corpus corpus.h5 --model-dir model "
                       "--batch-source-tokens 25000 --batch-target-tokens 25000",
                       "Directly, with batches in tokens in place of --mini-batch-fit:"}};
  OptionTable& table = command.options;
  table.group("Conversion");
  table.operands("FILE", options->files, "The YAML file, of at most 64 KiB.").required = true;
  table.choice<Purpose>(
      "for", options->purpose,
      {{"auto", Purpose::kAuto}, {"train", Purpose::kTrain}, {"translate", Purpose::kTranslate}},
      "What the file configures. auto: translate if it has an option that only 'marian-decoder' has, "
      "otherwise train.");
  command.run = [options](Job& job) { return run_convert_config(*options, job); };
  return command;
}

}  // namespace ventris
