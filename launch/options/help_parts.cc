// SPDX-License-Identifier: Apache-2.0
#include "launch/options/help_parts.h"

namespace ventris {

namespace {

constexpr size_t kWidth = 80;

std::string default_of(const Option& option) {
  if (option.required) return "required";
  if (option.arity == Arity::kSwitch && !option.has(kByPreset)) return "";
  if (option.has(kByPreset)) return "default: that of the preset";
  const std::string value = option.show();
  return value.empty() ? "" : "default: " + value;
}

}  // namespace

std::string wrapped(const std::string& text, size_t indent, size_t hanging, const std::string& mark) {
  std::string result;
  std::string line(indent, ' ');
  bool fresh = true;
  size_t begin = 0;
  while (begin < text.size()) {
    size_t end = text.find(' ', begin);
    if (end == std::string::npos) end = text.size();
    const std::string word = text.substr(begin, end - begin);
    begin = end + 1;
    if (!fresh && line.size() + 1 + word.size() + mark.size() > kWidth) {
      result += line + mark + "\n";
      line.assign(indent + hanging, ' ');
      fresh = true;
    }
    line += (fresh ? "" : " ") + word;
    fresh = false;
  }
  return result + line + "\n";
}

std::string title_of(const Option& option) {
  if (option.operand) return option.placeholder;
  std::string title;
  for (const std::string& alias : option.aliases) title += alias + ", ";
  title += "--" + option.name;
  if (!option.placeholder.empty()) title += " " + option.placeholder;
  if (option.arity == Arity::kMany && title.find("...") == std::string::npos) title += "...";
  return title;
}

std::string notes_of(const Option& option) {
  std::string notes = option.limits;
  const char* const on_resume = option.has(kFixed) ? "fixed" : option.has(kNewRun) ? "new runs only" : "";
  for (const std::string& note : {default_of(option), std::string(on_resume)})
    if (!note.empty()) notes += (notes.empty() ? "" : "; ") + note;
  return notes;
}

std::vector<std::string> groups_of(const Command& command) {
  std::vector<std::string> groups;
  for (const Option& option : command.options.options()) {
    if (groups.empty() || groups.back() != option.group) groups.push_back(option.group);
  }
  return groups;
}

std::string example_line(const Example& example) {
  return example.line.find("ventris") == std::string::npos ? "ventris " + example.line : example.line;
}

const std::vector<ExitStatus>& common_exit_codes() {
  static const std::vector<ExitStatus> codes = {
      {0, "done"},
      {64, "the command line is wrong"},
      {65, "input is damaged or invalid"},
      {66, "an input is missing or cannot be read"},
      {70, "internal error, or out of memory"},
      {73, "an output cannot be created"},
      {74, "reading or writing failed, for example because the disk is full"},
      {78, "the configuration is wrong"},
  };
  return codes;
}

std::map<int, std::string> exit_codes_of(const Command& command) {
  std::map<int, std::string> codes;
  for (const ExitStatus& status : common_exit_codes()) codes[status.code] = status.meaning;
  for (const ExitStatus& status : command.exit_codes) codes[status.code] = status.meaning;
  return codes;
}

std::string config_help() {
  return "Reads options from a file with lines of the form 'option = value', without the dashes; "
         "'#' begins a comment. A switch is 'option = yes'; an option with several values takes several lines. "
         "train and plan also accept the config.json of a run folder. "
         "Options on the command line take precedence.";
}

}  // namespace ventris
