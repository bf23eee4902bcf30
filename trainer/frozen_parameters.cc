// SPDX-License-Identifier: Apache-2.0
#include "trainer/frozen_parameters.h"

#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>

#include "backend/error.h"

namespace ventris {
namespace {

constexpr const char* kFileGroup = "/model/";  // of parameters, as 'ventris inspect' prints them

bool matches(const std::string& glob, const std::string& name) {
  return fnmatch(glob.c_str(), (glob.starts_with('/') ? kFileGroup + name : name).c_str(), 0) == 0;
}

/// Characters that both have at their begin and at their end.
size_t common_characters(const std::string& a, const std::string& b) {
  const size_t shorter = std::min(a.size(), b.size());
  const auto begin =
      static_cast<size_t>(std::mismatch(a.begin(), a.begin() + shorter, b.begin()).first - a.begin());
  const auto end = static_cast<size_t>(
      std::mismatch(a.rbegin(), a.rbegin() + (shorter - begin), b.rbegin()).first - a.rbegin());
  return begin + end;
}

/// The names most similar to a glob that matches none; at most three.
std::vector<std::string> nearest_names(const std::string& glob, const ParameterStore& store) {
  constexpr size_t kMost = 3;
  const std::string plain = glob.starts_with(kFileGroup) ? glob.substr(std::string(kFileGroup).size()) : glob;
  std::vector<std::string> names;
  for (const LogicalParameter& parameter : store.logical()) names.push_back(parameter.name);
  std::stable_sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    return common_characters(plain, a) > common_characters(plain, b);
  });
  names.resize(std::min(names.size(), kMost));
  return names;
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
        "--freeze: no parameter matches {}; the nearest are {}. 'ventris inspect' prints the names of a model, * "
        "matches any part of one, and quotes keep it from the shell",
        glob, fmt::join(nearest_names(glob, store), ", "));
  }
  store.freeze(frozen);
  if (store.trained_size() > 0) return;
  fail(
      ExitCode::kBadConfiguration,
      "--freeze {} leaves no parameter to train; all {} match. Freeze fewer, or translate with the model as it is",
      fmt::join(globs, " "), store.parameter_count());
}

}  // namespace ventris
