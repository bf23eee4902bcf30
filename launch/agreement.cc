// SPDX-License-Identifier: Apache-2.0
#include "launch/agreement.h"

#include <fmt/format.h>

#include <string>

#include "comm/communicator.h"
#include "launch/command.h"
#include "trainer/inference/model_set.h"

namespace ventris {
namespace {

bool is_path(const Option& option) {
  return option.placeholder.starts_with("FILE") || option.placeholder.starts_with("DIR") ||
         option.placeholder.starts_with("PATH");
}

}  // namespace

void check_same_command_on_all_ranks(Communicator& communicator, const Command& command) {
  check_equal_on_all_ranks(communicator, "the command", command.name);
  for (const Option& option : command.options.options()) {
    if (option.name == "threads") continue;
    const std::string value = option.show();
    check_equal_on_all_ranks(communicator, "option " + option.name,
                             !is_path(option) ? value
                             : value.empty()  ? "none"
                                              : "a path");
  }
}

void check_same_models_on_all_ranks(Communicator& communicator, const ModelSet& models) {
  if (communicator.size() == 1) return;
  check_equal_on_all_ranks(communicator, "the digests of the models' files",
                           fmt::format("{}", fmt::join(models.file_digests(), " ")));
}

}  // namespace ventris
