#include "launch/parse.h"

#include <boost/program_options.hpp>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <system_error>

#include "backend/error.h"

namespace ventris {

namespace po = boost::program_options;

namespace {

constexpr const char* kOperandKey = "operands";
// Files of options are short, and parsed they take up to a hundred times their size.
constexpr size_t kMostConfigBytes = size_t{64} << 10;
using Values = std::map<std::string, std::vector<std::string>>;

// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other.
size_t edit_distance(const std::string& a, const std::string& b) {
  const size_t width = b.size() + 1;
  std::vector<size_t> table((a.size() + 1) * width);
  const auto at = [&table, width](size_t i, size_t j) -> size_t& { return table[i * width + j]; };
  for (size_t i = 0; i <= a.size(); ++i) at(i, 0) = i;
  for (size_t j = 0; j <= b.size(); ++j) at(0, j) = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = at(i - 1, j - 1) + (a[i - 1] == b[j - 1] ? 0 : 1);
      at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
    }
  }
  return at(a.size(), b.size());
}

po::options_description describe(const Command& command, bool with_config) {
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

std::string suggestion(const Command& command, const std::string& word) {
  std::vector<std::string> names = {"config", "help"};
  for (const Option& option : command.options.options()) {
    if (!option.operand) names.push_back(option.name);
  }
  const std::string near = nearest(word, names);
  return near.empty() ? fmt::format("'ventris {} --help' lists the options", command.name)
                      : fmt::format("did you mean --{}?", near);
}

// Collects parsed options by name. Requires that every name is one of the table; `where` is empty for the
// command line.
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

Values parse_words(const Command& command, const std::vector<std::string>& words) {
  const po::options_description description = describe(command, true);
  po::positional_options_description positional;
  const auto& table = command.options.options();
  const bool has_operands =
      std::any_of(table.begin(), table.end(), [](const Option& o) { return o.operand; });
  if (has_operands) positional.add(kOperandKey, -1);
  // Prefixes are not guessed, so that a later version may add options without changing what a script means.
  const int style = po::command_line_style::allow_long | po::command_line_style::long_allow_adjacent |
                    po::command_line_style::long_allow_next;
  try {
    return collect(
        command,
        po::command_line_parser(words).options(description).positional(positional).style(style).run(), "");
  } catch (const po::unknown_option& error) {
    std::string name = error.get_option_name();
    while (!name.empty() && name.front() == '-') name.erase(name.begin());
    fail(ExitCode::kUsage, "unknown option --{}; {}", name, suggestion(command, name));
  } catch (const po::too_many_positional_options_error&) {
    std::string word;
    for (size_t i = 0; i < words.size() && word.empty(); ++i) {
      const bool value_of_option = i > 0 && words[i - 1].rfind("--", 0) == 0;
      if (words[i].rfind("--", 0) != 0 && !value_of_option) word = words[i];
    }
    fail(ExitCode::kUsage, "unexpected argument{}; 'ventris {} --help' shows the synopsis",
         word.empty() ? std::string() : " '" + word + "'", command.name);
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

std::string read_config(const std::string& path) {
  std::error_code error;
  const bool folder = std::filesystem::is_directory(path, error);
  std::ifstream file(path);
  if (folder || !file) {
    fail(ExitCode::kMissingInput, "--config: cannot read {}: {}", path,
         folder ? "it is a folder" : std::generic_category().message(errno));
  }
  std::string text(kMostConfigBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMostConfigBytes) {
    fail(ExitCode::kBadConfiguration,
         "{}: it is longer than {} bytes; expected lines of the form 'option = value'", path,
         kMostConfigBytes);
  }
  if (text.rfind("\xEF\xBB\xBF", 0) == 0) text.erase(0, 3);  // the mark that some editors begin with
  if (text.find('\0') != std::string::npos) {
    fail(ExitCode::kBadConfiguration, "{}: holds NUL bytes; expected lines of the form 'option = value'",
         path);
  }
  return text;
}

Values parse_file(const Command& command, const std::string& path) {
  std::istringstream stream(read_config(path));
  try {
    // Unknown names are let through here so that the message can suggest a name.
    const po::parsed_options parsed = po::parse_config_file(stream, describe(command, false), true);
    for (const po::option& option : parsed.options) {
      const Option* known = command.options.find(option.string_key);
      if (known == nullptr || known->operand) {
        std::vector<std::string> names;
        for (const Option& candidate : command.options.options()) {
          if (!candidate.operand) names.push_back(candidate.name);
        }
        const std::string near = nearest(option.string_key, names);
        fail(ExitCode::kBadConfiguration, "{}: '{}' is no option of ventris {}{}", path, option.string_key,
             command.name, near.empty() ? "" : "; did you mean '" + near + "'?");
      }
    }
    return collect(command, parsed, path);
  } catch (const po::invalid_config_file_syntax& error) {
    // Not what(): it puts the line into a template and does not end where the line holds '%invalid_line%'.
    fail(ExitCode::kBadConfiguration, "{}: '{}' is no line of the form 'option = value'", path,
         error.tokens());
  } catch (const po::error&) {
    fail(ExitCode::kBadConfiguration, "{}: expected lines of the form 'option = value'", path);
  }
}

void store(const Command& command, const Values& values, const std::string& file) {
  for (const Option& option : command.options.options()) {
    const auto found = values.find(option.operand ? kOperandKey : option.name);
    if (found == values.end()) continue;
    const std::string where = option.operand ? option.name
                              : file.empty() ? "--" + option.name
                                             : fmt::format("{}: {}", file, option.name);
    if (found->second.empty() && option.arity != Arity::kSwitch)
      fail(ExitCode::kUsage, "{} needs a value", where);
    try {
      option.store(found->second, where);
    } catch (const OptionError& error) {
      fail(file.empty() ? ExitCode::kUsage : ExitCode::kBadConfiguration, "{}", error.what());
    }
  }
}

std::string text_of(const Values& values, const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() || found->second.empty() ? "" : found->second.front();
}

}  // namespace

std::string nearest(const std::string& word, const std::vector<std::string>& candidates) {
  std::string best;
  size_t best_distance = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    // A beginning of a name is near to it, however long the rest is.
    const bool prefix = word.size() >= 3 && candidate.rfind(word, 0) == 0;
    // Words of very different lengths are far apart; this also bounds the table for a word of any length.
    const size_t longer = std::max(word.size(), candidate.size());
    if (!prefix && longer - std::min(word.size(), candidate.size()) >= best_distance) continue;
    const size_t distance = prefix ? 1 : edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

void parse_options(const Command& command, const std::vector<std::string>& words) {
  Values flags = parse_words(command, words);
  Values from_file;
  const std::string config = text_of(flags, "config");
  if (flags.count("config") > 0) {
    from_file = parse_file(command, config);
    for (const auto& [name, values] : flags) from_file.erase(name);
  }
  for (const Option& option : command.options.options()) {
    const auto given = [&](const std::string& name) { return flags.count(name) + from_file.count(name) > 0; };
    if (option.excludes.empty() || !given(option.name) || !given(option.excludes)) continue;
    fail(ExitCode::kUsage, "--{} and --{} exclude each other; give one of them", option.name,
         option.excludes);
  }
  const std::string preset =
      flags.count("preset") > 0 ? text_of(flags, "preset") : text_of(from_file, "preset");
  if (command.before_store) command.before_store(preset);
  store(command, from_file, config);
  store(command, flags, "");
  for (const Option& option : command.options.options()) {
    const std::string key = option.operand ? kOperandKey : option.name;
    if (!option.required || flags.count(key) > 0 || from_file.count(key) > 0) continue;
    fail(ExitCode::kUsage, "{}{} is required; 'ventris {} --help' explains it", option.operand ? "" : "--",
         option.name, command.name);
  }
}

}  // namespace ventris
