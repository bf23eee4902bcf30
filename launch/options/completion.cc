// SPDX-License-Identifier: Apache-2.0
#include "launch/options/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "backend/device/error.h"

namespace ventris {
namespace {

/// What may follow an option, by its placeholder, such as "auto|never|FILE" or "SRC TGT...".
struct ValueKind {
  std::string words;  // of a choice, with spaces between them
  bool files = false;
};

ValueKind kind_of(const Option& option) {
  ValueKind kind;
  std::string part;
  for (const char c : option.placeholder + "|") {
    if (c != '|' && c != ' ' && c != '.') {
      part += c;
      continue;
    }
    const bool is_word =
        !part.empty() && std::none_of(part.begin(), part.end(), [](char l) { return l >= 'A' && l <= 'Z'; });
    if (is_word) kind.words += (kind.words.empty() ? "" : " ") + part;
    for (const char* file : {"FILE", "PATH", "SRC", "CORPUS", "DIR"}) kind.files |= part == file;
    part.clear();
  }
  return kind;
}

/// The options as given on a command line, without operands, and those of all commands.
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

std::vector<std::string> spellings_of(const Option& option) {
  std::vector<std::string> spellings = option.aliases;
  spellings.push_back("--" + option.name);
  return spellings;
}

/// The first sentence of the help, between single quotes of a shell; `special` characters get a backslash.
std::string quoted_help(const std::string& help, const std::string& special, const std::string& quote) {
  std::string text;
  for (const char c : help.substr(0, std::min(help.find(". "), help.find_last_not_of('.') + 1))) {
    if (special.find(c) != std::string::npos) text += '\\';
    text += c == '\'' ? quote : std::string(1, c);
  }
  return text;
}

// Where neither a word nor an option is offered, bash completes files. --option=value are three words.
constexpr const char* kBash = R"(_ventris() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} command=${{COMP_WORDS[1]}} words=
  COMPREPLY=()
  if [[ $current == '=' ]]; then
    current=
  elif [[ $previous == '=' ]]; then
    previous=${{COMP_WORDS[COMP_CWORD-2]}}
  fi
  if ((COMP_CWORD == 1)); then
    words="{names} --help --version"
  elif [[ $current == -* || $command == help ]]; then
    case "$command" in
      help) words="{names} {topics}" ;;
{options}    esac
  else
    case "$command $previous" in
{values}    esac
  fi
  [[ -n $words ]] && mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}}
complete -o default -F _ventris ventris
)";

constexpr const char* kZsh = R"(#compdef ventris
_ventris() {{
  local curcontext=$curcontext state line
  _arguments -C '1:command:({names})' '*::argument:->rest'
  [[ $state == rest ]] || return
  case $words[1] in
    help) _arguments '1:command or topic:({names} {topics})' ;;
{options}  esac
}}
compdef _ventris ventris
)";

std::string bash_options(const Command& command) {
  std::vector<std::string> all;
  for (const Option& option : completed_options(command)) {
    for (const std::string& spelling : spellings_of(option)) all.push_back(spelling);
  }
  return fmt::format("      {}) words=\"{}\" ;;\n", command.name, fmt::join(all, " "));
}

std::string bash_values(const Command& command) {
  std::string lines;
  for (const Option& option : completed_options(command)) {
    const ValueKind kind = kind_of(option);
    if (option.arity == Arity::kSwitch || kind.words.empty()) continue;
    for (const std::string& spelling : spellings_of(option))
      lines += fmt::format("      '{} {}') words=\"{}\" ;;\n", command.name, spelling, kind.words);
  }
  return lines;
}

std::string zsh_options(const Command& command) {
  std::string text = fmt::format("    {})\n      _arguments", command.name);
  for (const Option& option : completed_options(command)) {
    const ValueKind kind = kind_of(option);
    const bool repeats = option.arity == Arity::kMany;
    std::string value;
    if (option.arity != Arity::kSwitch) {
      value = fmt::format(":{}:{}", quoted_help(option.placeholder, "[]:", "'\\''"),
                          !kind.words.empty() ? "(" + kind.words + ")"
                          : kind.files        ? "_files"
                                              : " ");
    }
    for (const std::string& spelling : spellings_of(option))
      text += fmt::format(" \\\n        '{}{}[{}]{}'", repeats ? "*" : "", spelling,
                          quoted_help(option.help, "[]:", "'\\''"), value);
  }
  return text + " \\\n        '*:file:_files'\n      ;;\n";
}

std::string fish_lines(const Command& command) {
  const std::string here =
      fmt::format("complete -c ventris -n '__fish_seen_subcommand_from {}'", command.name);
  std::string text = fmt::format("complete -c ventris -n __fish_use_subcommand -a {} -d '{}'\n", command.name,
                                 quoted_help(command.summary, "\\", "\\'"));
  for (const Option& option : completed_options(command)) {
    const ValueKind kind = kind_of(option);
    text += here;
    for (const std::string& spelling : spellings_of(option)) {
      const bool is_long = spelling.starts_with("--");
      const char* const kind_of_name = is_long ? "-l" : spelling.size() == 2 ? "-s" : "-o";
      text += fmt::format(" {} {}", kind_of_name, spelling.substr(is_long ? 2 : 1));
    }
    if (option.arity != Arity::kSwitch) text += kind.files ? " -rF" : " -x";
    if (!kind.words.empty()) text += fmt::format(" -a '{}'", kind.words);
    text += fmt::format(" -d '{}'\n", quoted_help(option.help, "\\", "\\'"));
  }
  return text;
}

}  // namespace

std::string completion(const std::string& shell, const std::vector<Command>& commands,
                       const std::vector<std::string>& help_topics) {
  std::string names = "help";
  std::string options;
  std::string values;
  for (const Command& command : commands) {
    names += " " + command.name;
    if (shell == "bash") options += bash_options(command);
    if (shell == "bash") values += bash_values(command);
    if (shell == "zsh") options += zsh_options(command);
    if (shell == "fish") options += fish_lines(command);
  }
  const std::string topics = fmt::format("{}", fmt::join(help_topics, " "));
  const auto filled = [&](const char* script) {
    return fmt::format(fmt::runtime(script), fmt::arg("names", names), fmt::arg("topics", topics),
                       fmt::arg("options", options), fmt::arg("values", values));
  };
  if (shell == "bash") return filled(kBash);
  if (shell == "zsh") return filled(kZsh);
  if (shell != "fish")
    fail(ExitCode::kUsage, "there is no completion for '{}'; there is one for bash, zsh and fish", shell);
  return options + fmt::format(
                       "complete -c ventris -n __fish_use_subcommand -a help\n"
                       "complete -c ventris -n '__fish_seen_subcommand_from help' -a '{} {}'\n",
                       names, topics);
}

}  // namespace ventris
