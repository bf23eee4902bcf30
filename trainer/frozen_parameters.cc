// SPDX-License-Identifier: Apache-2.0
#include "trainer/frozen_parameters.h"

#include <fmt/ranges.h>
#include <fnmatch.h>

#include "backend/device/error.h"

namespace ventris {
namespace {

constexpr const char* kFileGroup = "/model/";  // of parameters, as 'ventris inspect' prints them

bool matches(const std::string& glob, const std::string& name) {
  return fnmatch(glob.c_str(), (glob.starts_with('/') ? kFileGroup + name : name).c_str(), 0) == 0;
}

}  // namespace

void freeze_parameters(const std::vector<std::string>& globs, ParameterStore& store) {
  if (globs.empty()) return;
  std::vector<std::string> frozen;
  for (const std::string& glob : globs) {
    const size_t before = frozen.size();
    for (const LogicalParameter& parameter : store.logical())
      if (matches(glob, parameter.name)) frozen.push_back(parameter.name);
    if (frozen.size() > before) continue;
    fail(
        ExitCode::kBadConfiguration,
        "--freeze: no parameter matches {}. 'ventris inspect' prints the names of a model, such as {}; * matches "
        "any part of one, and quotes keep it from the shell",
        glob, store.logical().front().name);
  }
  store.freeze(frozen);
  if (store.trained_size() > 0) return;
  fail(
      ExitCode::kBadConfiguration,
      "--freeze {} leaves no parameter to train; all {} match. Freeze fewer, or translate with the model as it is",
      fmt::join(globs, " "), store.parameter_count());
}

}  // namespace ventris
