// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include <iterator>
#include <memory>

#include "backend/device/error.h"
#include "data/error.h"
#include "launch/command.h"
#include "launch/job.h"
#include "launch/output.h"
#include "trainer/checkpoint/run_folder.h"
#include "trainer/exchange/average.h"
#include "trainer/json_text.h"
#include "trainer/text.h"

namespace ventris {

namespace {

struct AverageCommandOptions {
  std::string model_dir;
  int last = 5;
  std::vector<std::string> checkpoints;
  std::string output;
  bool json = false;
};

std::vector<std::string> chosen(const AverageCommandOptions& options) {
  if (options.model_dir.empty() == options.checkpoints.empty()) {
    fail(ExitCode::kUsage, "give either --model-dir, with --last, or --checkpoints");
  }
  if (!options.checkpoints.empty()) return options.checkpoints;
  std::vector<std::string> paths = list_checkpoints(options.model_dir);
  if (paths.empty()) fail(ExitCode::kMissingInput, "{} holds no checkpoints", options.model_dir);
  const auto wanted = static_cast<size_t>(options.last);
  if (paths.size() < wanted) {
    fail(ExitCode::kMissingInput,
         "{} holds {}, but the last {} are to be averaged; give --last {}, or train with a larger "
         "--keep-checkpoints",
         options.model_dir, counted(std::ssize(paths), "checkpoint"), options.last, paths.size());
  }
  paths.erase(paths.begin(), paths.end() - static_cast<ptrdiff_t>(wanted));
  return paths;
}

/// Says of a damaged checkpoint of a run folder how to leave it out.
void average(const AverageCommandOptions& options, const std::vector<std::string>& paths,
             const std::string& provenance) {
  try {
    average_checkpoints(paths, options.output, provenance);
  } catch (const data::DataError& error) {
    if (options.model_dir.empty() || error.kind() != data::ErrorKind::kBadData) throw;
    fail(ExitCode::kBadData, "{}. To leave it out, give the others by --checkpoints in place of --model-dir",
         without_full_stop(error.what()));
  }
}

int run_average(const AverageCommandOptions& options, const Job& job) {
  const std::vector<std::string> paths = chosen(options);
  average(options, paths, job.provenance());
  if (options.json) {
    write_output(json_text(nlohmann::json{{"output", options.output}, {"checkpoints", paths}}) + "\n");
    return 0;
  }
  std::string text =
      fmt::format("{}: average of {}\n", options.output, counted(std::ssize(paths), "checkpoint"));
  for (const std::string& path : paths) text += "  " + path + "\n";
  write_output(text);
  return 0;
}

}  // namespace

Command average_command() {
  const auto options = std::make_shared<AverageCommandOptions>();
  Command command;
  command.name = "average";
  command.summary = "averages the parameters of checkpoints into a weights file";
  command.synopsis = "{--model-dir DIR [--last N] | --checkpoints FILE...} --output FILE";
  command.description = {
      "Writes the mean of the parameters of several checkpoints (or weights files) "
      "of one model as a weights file. The paper averages the last 5 checkpoints of its base models "
      "and the last 20 of its big ones; this often gains half a point of BLEU."};
  command.examples = {
      {"average --model-dir model --last 5 --output averaged.h5", "The last five of a run:"},
      {"average --checkpoints model/checkpoint-00008000.h5 model/checkpoint-00009000.h5 --output averaged.h5",
       "Chosen checkpoints:"}};
  OptionTable& table = command.options;
  table.group("Input and output");
  table.text("model-dir", "DIR", options->model_dir, "Run folder of 'ventris train'.");
  table.integer("last", options->last, {.min = 1, .max = 100000},
                "Number of its newest checkpoints to average.");
  table.texts("checkpoints", "FILE...", options->checkpoints, "The files to average, instead of --model-dir.")
      .excludes = {"last"};
  table.text("output", "FILE", options->output, "The weights file.").required = true;
  table.toggle("json", options->json, "Prints one JSON object.");
  command.run = [options](Job& job) { return run_average(*options, job); };
  return command;
}

}  // namespace ventris
