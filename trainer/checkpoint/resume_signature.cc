// SPDX-License-Identifier: Apache-2.0
#include "trainer/checkpoint/resume_signature.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "backend/device/error.h"
#include "trainer/options/model_config.h"
#include "trainer/options/train_rows.h"

namespace ventris {
namespace {

using Signature = std::map<std::string, std::string>;

Signature parse_signature(const std::string& text) {
  Signature values;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = std::min(line.find(": "), line.size());
    values[line.substr(0, colon)] = line.substr(std::min(colon + 2, line.size()));
  }
  return values;
}

std::vector<Option> fixed_rows(TrainRows& rows) {
  add_vocabulary_rows(rows.options.model, rows.table);
  std::vector<Option> fixed;
  std::ranges::copy_if(rows.table.options(), std::back_inserter(fixed),
                       [](const Option& row) { return row.has(kFixed); });
  return fixed;
}

}  // namespace

std::string resume_signature(const TrainOptions& options) {
  TrainRows rows(options);
  std::string lines;
  for (const Option& row : fixed_rows(rows)) lines += row.name + ": " + row.show() + "\n";
  return lines;
}

std::string option_in_signature(const std::string& signature, const std::string& name) {
  return parse_signature(signature)[name];
}

void refuse_other_option(const std::string& path, const std::string& option, const std::string& theirs,
                         const std::string& ours) {
  const auto shown = [](const std::string& value) { return value.empty() ? "none" : value; };
  fail(ExitCode::kBadConfiguration,
       "{} was written with {} {}, but this run has {}. "
       "Give the same {}, or another --model-dir to start from the beginning",
       path, option, shown(theirs), shown(ours), option.starts_with("--") ? "option" : "corpus");
}

void check_same_signature(const std::string& path, const std::string& theirs, const std::string& ours) {
  Signature have = parse_signature(theirs);
  if (have.contains("batch_source_tokens")) {
    fail(ExitCode::kBadConfiguration,
         "{} is of a run that an earlier version of the program began, which this one cannot continue. "
         "'ventris train --init {} --model-dir DIR', with another DIR, begins a new run with its parameters",
         path, path);
  }
  const Signature want = parse_signature(ours);
  TrainRows defaults;
  for (const Option& row : fixed_rows(defaults)) {
    have.try_emplace(row.name, row.show());
    const std::string& value = want.at(row.name);
    if (have[row.name] != value)
      refuse_other_option(path, (row.help.empty() ? "" : "--") + row.name, have[row.name], value);
    have.erase(row.name);
  }
  for (const auto& [name, value] : have) refuse_other_option(path, "--" + name, value, "no such option");
}

}  // namespace ventris
