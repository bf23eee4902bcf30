// SPDX-License-Identifier: Apache-2.0
#include "launch/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace ventris {
namespace {

/// What may follow an option.
struct ValueKind {
  std::vector<std::string> words;  // of a choice
  bool files = false;
  bool folders = false;
};

/// By its placeholder, such as "auto|never|FILE" or "SRC TGT...".
ValueKind kind_of(const Option& option) {
  ValueKind kind;
  std::string part;
  for (const char c : option.placeholder + "|") {
    if (c != '|' && c != ' ' && c != '.') {
      part += c;
      continue;
    }
    const bool is_word = !part.empty() && std::none_of(part.begin(), part.end(), [](char letter) {
      return letter >= 'A' && letter <= 'Z';
    });
    if (is_word) kind.words.push_back(part);
    kind.folders |= part == "DIR";
    for (const char* file : {"FILE", "PATH", "SRC", "CORPUS"}) kind.files |= part == file;
    part.clear();
  }
  return kind;
}

/// The options of a command as given on a command line, without operands, and those of all commands.
std::vector<Option> completed_options(const Command& command) {
  std::vector<Option> options;
  for (const Option& option : command.options.options()) {
    if (!option.operand) options.push_back(option);
  }
  Option config;
  config.name = "config";
  config.placeholder = "FILE";
  config.help = "Reads options from a file.";
  options.push_back(config);
  Option help;
  help.name = "help";
  help.arity = Arity::kSwitch;
  help.help = "Prints the common options; with 'all' all of them.";
  options.push_back(help);
  return options;
}

bool has_operands(const Command& command) {
  const std::vector<Option>& options = command.options.options();
  return std::any_of(options.begin(), options.end(), [](const Option& o) { return o.operand; });
}

std::vector<std::string> names_of(const std::vector<Command>& commands) {
  std::vector<std::string> names;
  for (const Command& command : commands) names.push_back(command.name);
  names.push_back("help");
  return names;
}

/// The words of a choice that stands without an option's name.
std::vector<std::string> operand_words(const Command& command) {
  for (const Option& option : command.options.options()) {
    if (option.operand) return kind_of(option).words;
  }
  return {};
}

std::string first_sentence(const std::string& help) {
  return help.substr(0, std::min(help.find(". "), help.find_last_not_of('.') + 1));
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

constexpr const char* kBashBegin = R"(# Completion of ventris for bash, written by 'ventris completion bash'.
_ventris() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}
  local options= valued= words= word
  COMPREPLY=()
  # --option=value are three words.
  if [[ $current == '=' ]]; then
    current=
  elif [[ $previous == '=' ]]; then
    previous=${COMP_WORDS[COMP_CWORD-2]}
  fi
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W "$_ventris_commands --help --version" -- "$current")
    return
  fi
  # After -- follows another command.
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    [[ $word == -- ]] && return
  done
  case "$command" in
)";

constexpr const char* kBashEnd = R"(  esac
  if [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
    return
  fi
  case "$command $previous" in
)";

}  // namespace

std::string bash_completion(const std::vector<Command>& commands, const std::vector<std::string>& topics) {
  const std::vector<std::string> names = names_of(commands);
  std::string options;
  std::string values;
  for (const Command& command : commands) {
    std::string line;
    std::string valued;
    for (const Option& option : completed_options(command)) {
      std::vector<std::string> spellings = option.aliases;
      spellings.push_back("--" + option.name);
      line += (line.empty() ? "" : " ") + fmt::format("{}", fmt::join(spellings, " "));
      if (option.arity == Arity::kSwitch) continue;
      valued += fmt::format(" {} ", fmt::join(spellings, "  "));
      const ValueKind kind = kind_of(option);
      std::string pattern;
      for (const std::string& spelling : spellings)
        pattern += fmt::format("{}'{} {}'", pattern.empty() ? "" : " | ", command.name, spelling);
      if (!kind.words.empty())
        values += fmt::format("    {}) words=\"{}\" ;;\n", pattern, fmt::join(kind.words, " "));
      if (kind.folders && !kind.files && kind.words.empty())
        values += fmt::format(
            "    {}) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- \"$current\"); return ;;\n",
            pattern);
    }
    if (const std::vector<std::string> words = operand_words(command); !words.empty())
      values += fmt::format("    '{0} {0}') words=\"{1}\" ;;\n", command.name, fmt::join(words, " "));
    options += fmt::format("    {}) options=\"{}\"{} ;;\n", command.name, line,
                           has_operands(command) ? "" : fmt::format(" valued=\"{}\"", valued));
  }
  // Where neither a word nor an option is expected, nothing is offered and bash completes files.
  return fmt::format("_ventris_commands=\"{}\"\n", fmt::join(names, " ")) + kBashBegin + options +
         fmt::format("    help) words=\"{} {}\" ;;\n", fmt::join(names, " "), fmt::join(topics, " ")) +
         kBashEnd + values +
         R"(  esac
  if [[ -z $words && -n $valued && $valued != *" $previous "* && -z $current ]]; then
    words=$options
  fi
  [[ -n $words ]] && mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -o default -F _ventris ventris
)";
}

std::string zsh_completion(const std::vector<Command>& commands, const std::vector<std::string>& topics) {
  const auto shown = [](const std::string& text) {
    std::string escaped = replaced(replaced(text, "\\", "\\\\"), "'", "'\\''");
    for (const char* special : {"[", "]", ":"})
      escaped = replaced(escaped, special, "\\" + std::string(special));
    return escaped;
  };
  std::string list;
  std::string cases;
  for (const Command& command : commands) {
    list += fmt::format("        '{}:{}'\n", command.name, replaced(command.summary, "'", "'\\''"));
    cases += fmt::format("        {})\n          _arguments", command.name);
    for (const Option& option : completed_options(command)) {
      const ValueKind kind = kind_of(option);
      std::vector<std::string> spellings = option.aliases;
      spellings.push_back("--" + option.name);
      for (const std::string& spelling : spellings) {
        const bool is_long = spelling.starts_with("--");
        const bool repeats = option.arity == Arity::kMany || option.arity == Arity::kRepeated;
        cases += fmt::format(" \\\n            '{}{}", repeats ? "*" : "", spelling);
        if (option.arity != Arity::kSwitch && is_long) cases += "=";
        cases += fmt::format("[{}]", shown(first_sentence(option.help)));
        if (option.arity != Arity::kSwitch) {
          std::string action = " ";
          if (!kind.words.empty()) action = fmt::format("({})", fmt::join(kind.words, " "));
          if (kind.folders) action = "_files -/";
          if (kind.files) action = "_files";
          cases += fmt::format(":{}:{}", shown(option.placeholder), action);
        }
        cases += "'";
      }
    }
    const std::vector<std::string> words = operand_words(command);
    if (!words.empty())
      cases += fmt::format(" \\\n            '1:word:({})'", fmt::join(words, " "));
    else if (has_operands(command))
      cases += " \\\n            '*:file:_files'";
    cases += "\n          ;;\n";
  }
  return fmt::format(R"(#compdef ventris
# Completion of ventris for zsh, written by 'ventris completion zsh'.
_ventris() {{
  local curcontext=$curcontext state line
  local -a commands
  _arguments -C '1:command:->command' '*::argument:->rest'
  case $state in
    command)
      commands=(
{}        'help:shows the help of a command or of a topic'
      )
      _describe command commands
      ;;
    rest)
      case $words[1] in
{}        help)
          _arguments '1:command or topic:({} {})'
          ;;
      esac
      ;;
  esac
}}
if [[ $funcstack[1] == _ventris ]]; then
  _ventris "$@"
else
  compdef _ventris ventris
fi
)",
                     list, cases, fmt::join(names_of(commands), " "), fmt::join(topics, " "));
}

std::string fish_completion(const std::vector<Command>& commands, const std::vector<std::string>& topics) {
  const auto quoted = [](const std::string& text) {
    return "'" + replaced(replaced(text, "\\", "\\\\"), "'", "\\'") + "'";
  };
  std::string text =
      "# Completion of ventris for fish, written by 'ventris completion fish'.\n"
      "complete -c ventris -f\n";
  for (const Command& command : commands) {
    const std::string here =
        fmt::format("complete -c ventris -n '__fish_seen_subcommand_from {}'", command.name);
    text += fmt::format("complete -c ventris -n __fish_use_subcommand -a {} -d {}\n", command.name,
                        quoted(command.summary));
    if (const std::vector<std::string> words = operand_words(command); !words.empty())
      text += fmt::format("{} -a '{}'\n", here, fmt::join(words, " "));
    else if (has_operands(command))
      text += here + " -F\n";
    for (const Option& option : completed_options(command)) {
      const ValueKind kind = kind_of(option);
      text += fmt::format("{} -l {}", here, option.name);
      for (const std::string& alias : option.aliases) {
        if (alias.starts_with("--"))
          text += fmt::format(" -l {}", alias.substr(2));
        else
          text += fmt::format(" -{} {}", alias.size() == 2 ? "s" : "o", alias.substr(1));
      }
      if (option.arity != Arity::kSwitch) text += kind.files || kind.folders ? " -rF" : " -x";
      if (!kind.words.empty())
        text += fmt::format(" -a {}", quoted(fmt::format("{}", fmt::join(kind.words, " "))));
      text += fmt::format(" -d {}\n", quoted(first_sentence(option.help)));
    }
  }
  text +=
      "complete -c ventris -n __fish_use_subcommand -a help -d 'shows the help of a command or of a topic'\n";
  return text + fmt::format(
                    "complete -c ventris -n '__fish_seen_subcommand_from help' -a {}\n",
                    quoted(fmt::format("{} {}", fmt::join(names_of(commands), " "), fmt::join(topics, " "))));
}

}  // namespace ventris
