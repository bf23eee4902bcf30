// SPDX-License-Identifier: Apache-2.0
#include "data/mix_file.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <set>

#include "data/error.h"

namespace ventris::data {

namespace {

constexpr const char* kStages = "stages";
constexpr const char* kDatasets = "datasets";
constexpr const char* kModifiers = "modifiers";
constexpr const char* kMix = "mix";
constexpr const char* kVersionKey = "version";

template <typename... Args>
[[noreturn]] void refuse_mix(const std::string& origin, fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorKind::kBadConfiguration, "{}: as a configuration of OpusTrainer: {}", origin,
       fmt::format(format, std::forward<Args>(args)...));
}

/// Whether a line begins with the key that a configuration has and that in a plan would be a stage without
/// corpora.
bool is_configuration(std::string_view text) {
  const std::string key = std::string(kStages) + ":";
  for (size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    if (at > 0 && text[at - 1] != '\n') continue;
    const size_t next = text.find_first_not_of(" \t\r", at + key.size());
    if (next == std::string_view::npos || text[next] == '\n' || text[next] == '[' || text[next] == '#')
      return true;
  }
  return false;
}

/// Reads the configuration once, top to bottom.
class Configuration {
 public:
  Configuration(std::string_view text, const std::string& origin) : origin_(origin) {
    try {
      root_ = YAML::Load(std::string(text));
      read();
    } catch (const YAML::Exception& error) {
      refuse_mix(origin_, "it is not YAML of the expected form, at line {}: {}", error.mark.line + 1,
                 error.msg);
    }
  }

  ReadMix take() { return std::move(read_); }

 private:
  void read() {
    if (!root_.IsMap())
      refuse_mix(origin_, "expected are the keys {} and {}, and one for each stage", kDatasets, kStages);
    if (root_[kVersionKey] && root_[kVersionKey].as<std::string>() != "1")
      refuse_mix(origin_, "its version is {}; version 1 is known", root_[kVersionKey].as<std::string>());
    read_datasets();
    if (!root_[kStages] || !root_[kStages].IsSequence() || root_[kStages].size() == 0)
      refuse_mix(origin_, "'{}' is no list of names", kStages);
    std::set<std::string> used = {kDatasets, kStages, kVersionKey, kModifiers};
    refuse_modifiers(root_, "the file");
    for (const YAML::Node& name : root_[kStages]) {
      read_stage(name.as<std::string>());
      used.insert(name.as<std::string>());
    }
    std::vector<std::string> others;
    for (const auto& item : root_) {
      if (!used.contains(item.first.as<std::string>())) others.push_back(item.first.as<std::string>());
    }
    if (!others.empty())
      read_.remarks.push_back(fmt::format("{}: not used: {}{}", origin_, fmt::join(others, ", "),
                                          root_["seed"] ? " (--seed is that of the run)" : ""));
  }

  void read_datasets() {
    if (!root_[kDatasets] || !root_[kDatasets].IsMap())
      refuse_mix(origin_, "'{}' is no list of names with paths", kDatasets);
    for (const auto& item : root_[kDatasets]) datasets_.insert(item.first.as<std::string>());
    read_.remarks.push_back(
        fmt::format("{}: the paths of {} are not used: the corpora of these names in the corpus file are",
                    origin_, kDatasets));
  }

  void refuse_modifiers(const YAML::Node& node, const std::string& where) const {
    const YAML::Node modifiers = node[kModifiers];
    if (!modifiers || modifiers.IsNull() || (modifiers.IsSequence() && modifiers.size() == 0)) return;
    std::string name = "of an unknown form";
    if (modifiers.IsSequence() && modifiers[0].IsMap() && modifiers[0].size() > 0)
      name = modifiers[0].begin()->first.as<std::string>();
    refuse_mix(
        origin_,
        "{} has the modifier {}; sentences are not changed during training: make the variants as a corpus "
        "of their own with 'ventris prepare', give it a share, and remove '{}'",
        where, name, kModifiers);
  }

  void read_stage(const std::string& name) {
    const YAML::Node stage = root_[name];
    const std::string where = "stage " + name;
    if (!stage) refuse_mix(origin_, "'{}' names {}, which has no key of its own", kStages, name);
    if (stage.IsMap()) refuse_modifiers(stage, where);
    const YAML::Node lines = stage.IsMap() ? stage[kMix] : stage;
    if (!lines || !lines.IsSequence() || lines.size() == 0)
      refuse_mix(origin_, "{} is no list of 'DATASET SHARE' that ends with 'until DATASET EPOCHS'", where);
    std::string text = name + ":";
    for (size_t i = 0; i < lines.size(); ++i) {
      const std::string line = lines[i].as<std::string>();
      const bool is_end = line.starts_with("until ");
      if (is_end != (i + 1 == lines.size()))
        refuse_mix(origin_, "{} must have its 'until DATASET EPOCHS' as its last line, not '{}'", where,
                   line);
      if (!is_end) check_dataset(line, where);
      if (is_end && (line.starts_with("until stalled ") || line.ends_with(" steps")))
        refuse_mix(origin_, "{} has '{}'; OpusTrainer ends stages after epochs only", where, line);
      text += " " + line;
    }
    if (text.find_first_of("\n#") != std::string::npos)
      refuse_mix(origin_, "{} has a line with # or a line end", where);
    const MixPlan parsed = parse_mix_plan(text, fmt::format("{}: {}", origin_, where));
    read_.plan.stages.push_back(parsed.stages.front());
  }

  void check_dataset(const std::string& line, const std::string& where) const {
    const std::string dataset = line.substr(0, line.find_first_of(" \t"));
    if (!datasets_.contains(dataset))
      refuse_mix(origin_, "{} draws from {}, which is not among '{}'", where, dataset, kDatasets);
  }

  const std::string& origin_;
  YAML::Node root_;
  std::set<std::string> datasets_;
  ReadMix read_;
};

}  // namespace

ReadMix read_mix(std::string_view text, const std::string& origin) {
  if (text.size() > kMaxMixFileBytes) {
    fail(ErrorKind::kBadConfiguration, "{}: has {} bytes; a plan has at most {}", origin, text.size(),
         kMaxMixFileBytes);
  }
  if (!is_configuration(text)) return {.plan = parse_mix_plan(text, origin), .remarks = {}};
  ReadMix read = Configuration(text, origin).take();
  check_mix_plan(read.plan, origin);
  return read;
}

}  // namespace ventris::data
