// SPDX-License-Identifier: Apache-2.0
#include "trainer/run_environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "backend/cpu/gemm_onednn.h"
#include "backend/device/device.h"
#include "backend/device/instruction_set.h"
#include "comm/communicator.h"
#include "comm/mpi_environment.h"
#include "data/io/json_text.h"
#include "trainer/json_text.h"

namespace ventris {
namespace {

using OrderedJson = nlohmann::ordered_json;

#if defined(__clang__)
constexpr const char* kCompiler = "Clang " __clang_version__;
#else
constexpr const char* kCompiler = "GCC " __VERSION__;
#endif

constexpr const char* kKeys[] = {"instruction_set", "kernels", "onednn", "compiler", "mpi", "cuda"};

OrderedJson of_this_rank() {
  const std::string library = gemm_library();  // "oneDNN 2.6.3, AVX2"
  const size_t comma = library.find(", ");
  return {{"instruction_set", comma == std::string::npos ? "" : library.substr(comma + 2)},
          {"kernels", instruction_set()},
          {"onednn", library.substr(library.find(' ') + 1, comma - library.find(' ') - 1)},
          {"compiler", kCompiler},
          {"mpi", mpi_library()},
          {"cuda", cuda_build()}};
}

std::string text_at(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || !found->is_string() ? "" : found->get<std::string>();
}

}  // namespace

std::string run_environment(Communicator& communicator) {
  std::map<std::string, std::vector<std::string>> values;
  for (const std::string& text : communicator.all_gather(json_text(of_this_rank()))) {
    const nlohmann::json rank = data::read_json(text);
    for (const char* key : kKeys) {
      const std::string value = text_at(rank, key);
      std::vector<std::string>& seen = values[key];
      if (std::find(seen.begin(), seen.end(), value) == seen.end()) seen.push_back(value);
    }
  }
  OrderedJson all = OrderedJson::object();
  for (const char* key : kKeys) all[key] = fmt::format("{}", fmt::join(values[key], " and "));
  return json_text(all);
}

std::string environment_changes(const std::string& before, const std::string& now) {
  const nlohmann::json old_values = parse_json(before);
  const nlohmann::json new_values = parse_json(now);
  if (!old_values.is_object() || !new_values.is_object()) return "";
  std::vector<std::string> changes;
  for (const char* key : kKeys) {
    const std::string from = text_at(old_values, key);
    const std::string to = text_at(new_values, key);
    std::string name = key;
    std::replace(name.begin(), name.end(), '_', ' ');
    if (!from.empty() && from != to) changes.push_back(fmt::format("{} from {} to {}", name, from, to));
  }
  return fmt::format("{}", fmt::join(changes, "; "));
}

}  // namespace ventris
