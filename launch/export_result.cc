#include "launch/export_result.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "launch/output.h"

namespace ventris {

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
    write_output(result.dump() + "\n");
  } else {
    write_output(fmt::format("{}: {} parameters in {} tensors, from {}\n", output, grouped(parameters),
                             tensors, model.path));
  }
}

}  // namespace ventris
