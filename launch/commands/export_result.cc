// SPDX-License-Identifier: Apache-2.0
#include "launch/commands/export_result.h"

#include <fmt/core.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "launch/output.h"
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

}  // namespace ventris
