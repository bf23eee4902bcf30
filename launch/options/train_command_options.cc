// SPDX-License-Identifier: Apache-2.0
#include "launch/options/train_command_options.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "backend/device/error.h"
#include "data/io/atomic_file.h"
#include "data/mix_plan.h"
#include "trainer/json_text.h"
#include "trainer/options/train_rows.h"
#include "trainer/train_options_json.h"

namespace ventris {
namespace {

/// The options of the short help.
std::vector<CommonOption> common_train_options() {
  return {{"corpus", "file of 'ventris prepare'; required"},
          {"model-dir", "folder of the run; required"},
          {"preset", "preset of the settings"},
          {"encoder-layers", "layers of the encoder"},
          {"decoder-layers", "and of the decoder"},
          {"d-model", "width"},
          {"d-ff", "width of feed-forward layers"},
          {"heads", "attention heads"},
          {"dropout", "dropout rate"},
          {"batch-source-tokens", "of a step, over all ranks"},
          {"batch-target-tokens", "of a step, over all ranks"},
          {"micro-batch-tokens", "per micro-batch; fewer save memory"},
          {"learning-rate-scale", "factor on the paper's schedule"},
          {"warmup-steps", "steps of rising learning rate"},
          {"max-steps", "last step of training"},
          {"max-epochs", "limit of epochs; 0: none"},
          {"max-minutes", "limit of minutes; 0: none"},
          {"valid-every", "steps between validations"},
          {"valid-metric", "metric of the best checkpoint"},
          {"patience", "validations without a better one"},
          {"save-every", "steps between checkpoints"},
          {"keep-checkpoints", "newest kept, in addition to the best"},
          {"log-every", "steps between lines of the log"},
          {"precision", "of products and activations"},
          {"device", "where to compute"},
          {"threads", "per rank; 0: its share of cores"}};
}

/// The options of a config.json, as a ConfigReader. Those that it lacks are as in the preset.
std::vector<std::pair<std::string, std::string>> options_in_json(const std::string& text,
                                                                 const std::string& path) {
  const nlohmann::json given = parse_json(text);
  std::vector<std::pair<std::string, std::string>> options;
  try {
    const TrainRows read(train_options_from_json(text, path));
    for (const Option& row : read.table.options()) {
      if (row.section.empty() && !given.contains(row.key())) continue;
      if (row.arity == Arity::kMany) {
        for (const nlohmann::json& value : row.to_json()) options.emplace_back(row.name, value);
      } else if (const std::string value = row.show(); !value.empty()) {
        options.emplace_back(row.name, row.name == "mix" ? path : value);
      }
    }
  } catch (const Error& error) {
    fail(ExitCode::kBadConfiguration, "{}", error.what());
  }
  return options;
}

}  // namespace

void add_train_options(TrainCommandOptions& options, Command& command) {
  add_train_rows(options.train, command.options);
  command.options.toggle("json", options.json, "Prints one JSON object at the end.");
  command.common = common_train_options();
  // An unknown name is refused when --preset itself is stored.
  command.before_store = [&options](const std::string& preset) {
    const std::string& wanted = preset.empty() ? options.train.preset : preset;
    if (std::ranges::count(preset_names(), wanted) > 0) options.train = preset_options(wanted);
  };
  command.options_from_json = options_in_json;
}

void take_mix(TrainOptions& options) {
  if (options.mix.empty()) return;
  const std::string path = options.mix;
  const std::vector<uint8_t> bytes = data::read_file(path, data::kMaxTextBytes);
  const std::string text(bytes.begin(), bytes.end());
  if (const size_t first = text.find_first_not_of(" \t\r\n"); first != text.npos && text[first] == '{') {
    options.mix = train_options_from_json(text, path).mix;
    if (options.mix.empty())
      fail(ExitCode::kBadConfiguration, "--mix {}: the run of this file has no plan of stages", path);
    return;
  }
  options.mix = data::to_text(data::parse_mix_plan(text, path));
}

}  // namespace ventris
