// SPDX-License-Identifier: Apache-2.0
#include "backend/device/error.h"
#include "launch/command.h"
#include "launch/options/parse.h"
#include "tests/fuzz/harness.h"
#include "trainer/options/model_config.h"

namespace ventris::fuzz {

/// The options file of `train`, and the JSON object of a model's configuration.
void run_config(std::string_view bytes) {
  const InputFile file(bytes);
  static const Command command = train_command();
  try {
    parse_options(command, {"--config", file.path()});
  } catch (const Error&) {
  }
  transformer_config_from_json(std::string(bytes), "input");
}

}  // namespace ventris::fuzz
