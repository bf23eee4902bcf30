// SPDX-License-Identifier: Apache-2.0
#include "launch/options/parse.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <filesystem>
#include <map>
#include <sstream>
#include <system_error>

#include "backend/device/error.h"
#include "launch/options/config_file.h"
#include "launch/options/help.h"
#include "launch/options/spelling.h"

namespace ventris {

namespace po = boost::program_options;

namespace {

constexpr const char* kOperandKey = "operands";
using Values = std::map<std::string, std::vector<std::string>>;

po::options_description describe_command(const Command& command, bool with_config) {
  po::options_description description;
  for (const Option& option : command.options.options()) {
    if (option.operand) {
      description.add_options()(kOperandKey, po::value<std::vector<std::string>>());
    } else if (option.arity == Arity::kMany) {
      description.add_options()(option.name.c_str(),
                                po::value<std::vector<std::string>>()->multitoken()->composing());
    } else if (option.arity == Arity::kSwitch && with_config) {
      description.add_options()(option.name.c_str(), po::value<bool>()->zero_tokens());
    } else {
      description.add_options()(option.name.c_str(), po::value<std::string>());
    }
  }
  if (with_config) description.add_options()("config", po::value<std::string>());
  return description;
}

// Collects parsed options by name. Requires that every name is in the table; `where` is empty for the command
// line.
Values collect(const Command& command, const po::parsed_options& parsed, const std::string& file) {
  Values values;
  for (const po::option& option : parsed.options) {
    const std::string& key = option.string_key;
    const Option* known = command.options.find(key);
    const bool many = key == kOperandKey || (known != nullptr && known->arity == Arity::kMany);
    if (values.count(key) > 0 && !many) {
      if (file.empty()) fail(ExitCode::kUsage, "--{} is given more than once", key);
      fail(ExitCode::kBadConfiguration, "{}: '{}' is given more than once", file, key);
    }
    std::vector<std::string>& into = values[key];
    into.insert(into.end(), option.value.begin(), option.value.end());
  }
  return values;
}

/// The library accepts any argument as a value. Values that begin with dashes must be written --name=value.
void check_values_are_given(const Command& command, const std::vector<std::string>& words) {
  for (size_t i = 0; i + 1 < words.size() && words[i] != "--"; ++i) {
    const Option* const option =
        words[i].starts_with("--") ? command.options.find(words[i].substr(2)) : nullptr;
    const std::string& next = words[i + 1];
    if (option == nullptr || option->operand || option->arity == Arity::kSwitch || !next.starts_with("--"))
      continue;
    if (next != "--" && command.options.find(next.substr(2, next.find('=') - 2)) == nullptr) continue;
    fail(ExitCode::kUsage, "{} needs a value{}, but '{}' follows it", words[i],
         option->placeholder.empty() ? std::string() : ": " + option->placeholder, next);
  }
}

Values parse_words(const Command& command, const std::vector<std::string>& as_given) {
  const std::vector<std::string> words = spelled_in_full(command, as_given);
  check_values_are_given(command, words);
  const po::options_description description = describe_command(command, true);
  po::positional_options_description positional;
  const auto& table = command.options.options();
  const bool has_operands =
      std::any_of(table.begin(), table.end(), [](const Option& o) { return o.operand; });
  if (has_operands) positional.add(kOperandKey, -1);
  // Prefixes are not accepted, so that a later version may add options without changing the meaning of a
  // script.
  const int style = po::command_line_style::allow_long | po::command_line_style::long_allow_adjacent |
                    po::command_line_style::long_allow_next;
  try {
    po::command_line_parser parser(words);
    return collect(command, parser.options(description).positional(positional).style(style).run(), "");
  } catch (const po::unknown_option& error) {
    std::string name = error.get_option_name();
    while (!name.empty() && name.front() == '-') name.erase(name.begin());
    fail(ExitCode::kUsage, "unknown option --{}; {}", name, suggestion(command, name));
  } catch (const po::too_many_positional_options_error&) {
    std::string unexpected;
    bool value_follows = false;
    for (const std::string& word : words) {
      const bool is_option = word.starts_with("--");
      if (unexpected.empty() && !is_option && !value_follows) unexpected = word;
      value_follows = is_option && waits_for_value(command, word);
    }
    fail(ExitCode::kUsage, "unexpected argument{}; 'ventris {} --help' shows the synopsis",
         unexpected.empty() ? std::string() : " '" + unexpected + "'", command.name);
  } catch (const po::error_with_option_name& error) {
    const Option* option = command.options.find(
        error.get_option_name().substr(std::min<size_t>(2, error.get_option_name().size())));
    if (option != nullptr && option->arity == Arity::kSwitch) {
      fail(ExitCode::kUsage, "{} takes no value", error.get_option_name());
    }
    fail(ExitCode::kUsage, "{} needs a value{}", error.get_option_name(),
         option == nullptr || option->placeholder.empty() ? std::string() : ": " + option->placeholder);
  } catch (const po::error& error) {
    fail(ExitCode::kUsage, "{}", error.what());
  }
}

Values parse_json_options(const Command& command, const std::string& text, const std::string& path) {
  if (!command.options_from_json) {
    fail(ExitCode::kBadConfiguration, "{}: is JSON; ventris {} expects lines of the form 'option = value'",
         path, command.name);
  }
  Values values;
  for (const auto& [name, value] : command.options_from_json(text, path)) values[name].push_back(value);
  return values;
}

/// Of a line that is none of a file of options.
bool looks_like_yaml(const std::string& line) {
  return line.starts_with("---") || line.ends_with(":") || line.find(": ") != std::string::npos;
}

/// A file of --config.
struct FileOptions {
  std::string path;
  Values values;
  bool of_lines = true;  // not converted: written for this command
};

FileOptions parse_file(const Command& command, const std::string& path) {
  const std::string text = read_config(path);
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '{')
    return {path, parse_json_options(command, text, path), false};
  std::istringstream stream(text);
  try {
    // Unknown names are accepted here so that the message can suggest a name.
    po::parsed_options parsed = po::parse_config_file(stream, describe_command(command, false), true);
    for (po::option& option : parsed.options) {
      option.string_key = name_of_alias(command, option.string_key);
      const Option* known = command.options.find(option.string_key);
      if (known == nullptr || known->operand) {
        fail(ExitCode::kBadConfiguration, "{}: '{}' is not an option of ventris {}; {}", path,
             option.string_key, command.name, suggestion(command, option.string_key, /*in_file=*/true));
      }
    }
    return {path, collect(command, parsed, path)};
  } catch (const po::invalid_config_file_syntax& error) {
    // Not what(): it inserts the line into a template and does not terminate if the line contains
    // '%invalid_line%'.
    fail(ExitCode::kBadConfiguration, "{}: '{}' is not a line of the form 'option = value'{}", path,
         error.tokens(),
         looks_like_yaml(error.tokens())
             ? ", but YAML; 'ventris help other-programs' has our names of Marian's options"
             : "");
  } catch (const po::error&) {
    fail(ExitCode::kBadConfiguration, "{}: expected lines of the form 'option = value'", path);
  }
}

/// `file`: of --config; empty for the command line.
void store(const Option& option, const std::vector<std::string>& values, const std::string& file) {
  const std::string where = option.operand ? option.name
                            : file.empty() ? "--" + option.name
                                           : fmt::format("{}: {}", file, option.name);
  if (values.empty() && option.arity != Arity::kSwitch) fail(ExitCode::kUsage, "{} needs a value", where);
  try {
    option.store(values, where);
  } catch (const OptionError& error) {
    fail(file.empty() ? ExitCode::kUsage : ExitCode::kBadConfiguration, "{}", error.what());
  }
}

void store(const Command& command, const Values& values, const std::string& file) {
  for (const Option& option : command.options.options()) {
    const auto found = values.find(option.operand ? kOperandKey : option.name);
    if (found != values.end()) store(option, found->second, file);
  }
}

std::string given_text(const Values& values, const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() || found->second.empty() ? "" : found->second.front();
}

/// The values of some options while that preset is taken.
Values values_of_preset(const Command& command, const std::string& preset) {
  command.before_store(preset);
  Values values;
  for (const Option& option : command.options.options()) {
    if (option.has(kByPreset)) values[option.name] = {option.show()};
  }
  return values;
}

/// Refuses a preset of the command line beside a file of another that sets all in which the two differ, such
/// as the config.json of a run.
void check_preset(const Command& command, const Values& flags, const FileOptions& file) {
  const std::string wanted = given_text(flags, "preset");
  const std::string in_file = given_text(file.values, "preset");
  if (wanted.empty() || in_file.empty() || wanted == in_file || !command.before_store) return;
  store(*command.options.find("preset"), {wanted}, "");  // refused if it is none
  const Values of_file = values_of_preset(command, in_file);
  for (const auto& [name, value] : values_of_preset(command, wanted)) {
    if (value != of_file.at(name) && !file.values.contains(name) && !flags.contains(name)) return;
  }
  fail(
      ExitCode::kUsage,
      "--preset {} has no effect: {} is of the preset {} and sets all that a preset sets. Leave out --preset "
      "to take the values of the file, or --config to take those of the preset; options that are given "
      "beside --config win over the file",
      wanted, file.path, in_file);
}

/// An option that has no effect is not passed over in silence, unless it has the value that it has anyway.
/// `before`: the values before the command line, and the file if it was written for this command.
void check_needs(const Command& command, const Values& before, const Values& flags, const FileOptions& file) {
  for (const Option& option : command.options.options()) {
    if (option.needs.empty()) continue;
    const bool by_flag = flags.contains(option.name);
    // The command line may take the effect from an option of a file that several runs share.
    const bool by_file = file.of_lines && file.values.contains(option.name) && !flags.contains(option.needs);
    if (!by_flag && !by_file) continue;
    const Option& needed = *command.options.find(option.needs);
    const std::string state = needed.show();
    if (option.show() == before.at(option.name).front()) continue;
    if (std::ranges::find(option.needs_not, state) == option.needs_not.end()) continue;
    const bool is_switch = needed.arity == Arity::kSwitch;
    const bool is_absent = is_switch || state.empty();
    fail(by_flag ? ExitCode::kUsage : ExitCode::kBadConfiguration,
         "{} has no effect {} --{}{}: leave it out, or give {}--{}",
         by_flag ? "--" + option.name : fmt::format("{}: {}", file.path, option.name),
         is_absent ? "without" : "with", needed.name, is_absent ? "" : " " + state,
         is_absent ? "" : "another ", needed.name);
  }
}

/// No input may be overwritten.
void check_output_is_no_input(const Command& command, const Values& flags, const Values& from_file) {
  const std::string name = "output";
  const std::string output = given_text(flags.contains(name) ? flags : from_file, name);
  std::error_code error;  // of a missing file
  if (output.empty() || !std::filesystem::is_regular_file(output, error)) return;
  for (const Values* values : {&flags, &from_file}) {
    for (const auto& [other, words] : *values) {
      const Option* const option = command.options.find(other);
      if (other == name || (option != nullptr && option->placeholder == "TEXT")) continue;
      for (const std::string& word : words) {
        if (!std::filesystem::equivalent(word, output, error)) continue;
        fail(ExitCode::kUsage, "--{} {}: is also the input of --{}; give another file", name, output, other);
      }
    }
  }
}

}  // namespace

void parse_options(const Command& command, const std::vector<std::string>& words) {
  Values flags = parse_words(command, words);
  FileOptions file;
  if (flags.count("config") > 0) {
    file = parse_file(command, given_text(flags, "config"));
    check_preset(command, flags, file);
    for (const auto& [name, values] : flags) file.values.erase(name);
  }
  const Values& from_file = file.values;
  for (const Option& option : command.options.options()) {
    const auto given = [&](const std::string& name) { return flags.count(name) + from_file.count(name) > 0; };
    for (const std::string& other : option.excludes) {
      if (!given(option.name) || !given(other)) continue;
      fail(ExitCode::kUsage, "--{} and --{} exclude each other; give one of them", option.name, other);
    }
  }
  check_output_is_no_input(command, flags, from_file);
  const std::string preset =
      flags.count("preset") > 0 ? given_text(flags, "preset") : given_text(from_file, "preset");
  if (command.before_store) command.before_store(preset);
  if (!file.of_lines) store(command, from_file, file.path);
  Values before;
  for (const Option& option : command.options.options()) {
    if (!option.needs.empty()) before[option.name] = {option.show()};
  }
  if (file.of_lines) store(command, from_file, file.path);
  store(command, flags, "");
  check_needs(command, before, flags, file);
  for (const Option& option : command.options.options()) {
    const std::string key = option.operand ? kOperandKey : option.name;
    if (!option.required || flags.count(key) > 0 || from_file.count(key) > 0) continue;
    fail(ExitCode::kUsage, "{}{} is required; see '{}'", option.operand ? "" : "--", option.name,
         help_in_full_line(command));
  }
}

}  // namespace ventris
