// SPDX-License-Identifier: Apache-2.0
#include "launch/options/help.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "backend/device/error.h"
#include "launch/options/help_parts.h"
#include "launch/options/help_topics.h"

namespace ventris {

namespace {

// The words of a choice are shown there if they are short.
std::string short_title_of(const Option& option) {
  constexpr size_t kWidest = 30;
  const std::string title = title_of(option);
  return title.size() <= kWidest ? title : "--" + option.name + " NAME";
}

// In the column of the short help.
std::string value_of(const Option& option) {
  return option.required ? "required" : option.show();
}

// One line each: the option, its value unless another is given, and what it is.
std::string common_options(const Command& command) {
  size_t widest_title = 0;
  size_t widest_value = 0;
  std::vector<const Option*> options;
  for (const CommonOption& common : command.common) {
    options.push_back(command.options.find(common.name));
    VENTRIS_CHECK(options.back() != nullptr, "{} has no option {}", command.name, common.name);
    widest_title = std::max(widest_title, short_title_of(*options.back()).size());
    widest_value = std::max(widest_value, value_of(*options.back()).size());
  }
  std::string text;
  for (size_t i = 0; i < options.size(); ++i) {
    text += fmt::format("  {:<{}}  {:>{}}  {}\n", short_title_of(*options[i]), widest_title,
                        value_of(*options[i]), widest_value, command.common[i].meaning);
  }
  return text;
}

std::string markdown_cell(const std::string& text) {
  std::string cell;
  for (const char c : text) cell += (c == '|' ? std::string("\\|") : std::string(1, c));
  return cell;
}

std::string markdown_row(const Option& option) {
  const std::string notes = notes_of(option);
  return fmt::format("| `{}` | {}{} |\n", markdown_cell(title_of(option)), markdown_cell(option.help),
                     notes.empty() ? "" : " *" + markdown_cell(notes) + "*");
}

std::string markdown_exit_codes(const std::vector<ExitStatus>& codes) {
  std::string text = "| code | meaning |\n|---|---|\n";
  for (const ExitStatus& status : codes) text += fmt::format("| {} | {} |\n", status.code, status.meaning);
  return text;
}

// The command whose table describes an option of `own`: one of these three, if it has the same row.
const Command& describing(const Option& option, const Command& own, const std::vector<Command>& commands) {
  for (const char* name : {"train", "translate", "evaluate"}) {
    for (const Command& command : commands) {
      const Option* same = command.name == name ? command.options.find(option.name) : nullptr;
      if (same != nullptr && markdown_row(*same) == markdown_row(option)) return command;
    }
  }
  return own;
}

// Tables of the options by group, and the names of those that other commands describe.
std::string markdown_options(const Command& command, const std::vector<Command>& commands) {
  std::string text;
  std::string group;
  std::map<std::string, std::string> elsewhere;  // by command
  for (const Option& option : command.options.options()) {
    const Command& describes = describing(option, command, commands);
    if (describes.name != command.name) {
      std::string& names = elsewhere[describes.name];
      names += fmt::format("{}`--{}`", names.empty() ? "" : ", ", option.name);
      continue;
    }
    if (option.group != group) {
      text += fmt::format("{}| {} | meaning |\n|---|---|\n", text.empty() ? "" : "\n", option.group);
      group = option.group;
    }
    text += markdown_row(option);
  }
  for (const auto& [name, options] : elsewhere) {
    text +=
        fmt::format("{}Options of [`{}`](#ventris-{}): {}.\n", text.empty() ? "" : "\n", name, name, options);
  }
  return text;
}

}  // namespace

std::string program_help(const std::vector<Command>& commands) {
  std::string text =
      "ventris - trains the Transformer of \"Attention Is All You Need\" on parallel text\n\n"
      "Usage:\n"
      "  ventris COMMAND [options]\n"
      "  mpirun -np RANKS ventris train|translate|evaluate [options]\n\n"
      "Commands, in the order of a first run:\n";
  for (const Command& command : commands) text += fmt::format("  {:<15} {}\n", command.name, command.summary);
  text += "\nTopics of 'ventris help':\n";
  for (const HelpTopic& topic : help_topics()) text += fmt::format("  {:<15} {}\n", topic.name, topic.title);
  text +=
      "\n"
      "  help TOPIC    shows a part of the guide\n"
      "  help COMMAND  shows the common options of a command, like COMMAND --help;\n"
      "                help COMMAND all, or COMMAND --help all, shows all of them\n"
      "  --version     prints the version, the commit and the libraries\n\n"
      "Results go to the standard output, messages to the standard error.\n";
  return text;
}

std::string command_help(const Command& command) {
  if (command.common.empty()) return command_help_in_full(command);
  std::string text = wrapped(fmt::format("ventris {} - {}", command.name, command.summary), 0, 4);
  text += "\n" + wrapped(fmt::format("Usage: ventris {} {}", command.name, command.synopsis), 0, 11);
  const Option* preset = command.options.find("preset");
  text += fmt::format("\nCommon options, {}:\n", preset == nullptr
                                                     ? "with their defaults"
                                                     : "with their values in the preset " + preset->show());
  text += common_options(command);
  text += "\nExamples:\n";
  constexpr size_t kMaxExamples = 2;
  for (size_t i = 0; i < std::min(kMaxExamples, command.examples.size()); ++i)
    text += wrapped(example_line(command.examples[i]), 2, 4, " \\");
  return text + fmt::format("\nAll {} options, with full descriptions: {}\n",
                            command.options.options().size(), help_in_full_line(command));
}

std::string help_in_full_line(const Command& command) {
  return fmt::format("ventris {} --help{}", command.name, command.common.empty() ? "" : " all");
}

std::string command_help_in_full(const Command& command) {
  std::string text = "NAME\n" + wrapped(fmt::format("ventris {} - {}", command.name, command.summary), 4, 4);
  text += "\nSYNOPSIS\n";
  text += wrapped(fmt::format("ventris {} {}", command.name, command.synopsis), 4, 4);
  text += "\nDESCRIPTION\n";
  for (size_t i = 0; i < command.description.size(); ++i) {
    text += (i > 0 ? "\n" : "") + wrapped(command.description[i], 4);
  }
  for (const std::string& group : groups_of(command)) {
    text += "\n";
    for (const char c : group) text += static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    text += "\n";
    for (const Option& option : command.options.options()) {
      if (option.group != group) continue;
      text += "    " + title_of(option) + "\n" + wrapped(option.help, 8);
      const std::string notes = notes_of(option);
      if (!notes.empty()) text += wrapped("[" + notes + "]", 8);
    }
  }
  text += "\nGENERAL\n    --config FILE\n" + wrapped(config_help(), 8) + "    --help [all]\n" +
          wrapped(command.common.empty() ? "Prints this text."
                                         : "Prints the common options; with 'all' this text.",
                  8);
  text += "\nEXAMPLES\n";
  for (const Example& example : command.examples) {
    text += wrapped(example.meaning, 4) + wrapped(example_line(example), 8, 4, " \\");
  }
  text += "\nEXIT CODES\n";
  for (const auto& [code, meaning] : exit_codes_of(command))
    text += fmt::format("    {:>2}  {}\n", code, meaning);
  return text;
}

std::string markdown_reference(const std::vector<Command>& commands) {
  std::string text =
      "# Commands\n\n"
      "This page is generated from the program's option tables: "
      "`ventris help --markdown > docs/commands.md`.\n\n"
      "| command | what it does |\n"
      "|---|---|\n";
  for (const Command& command : commands) {
    text += fmt::format("| [`{0}`](#ventris-{0}) | {1} |\n", command.name, markdown_cell(command.summary));
  }
  text +=
      "\nEvery command also has `--help`, which shows the common options, "
      "`--help all`, and `--config FILE`: " +
      config_help() +
      " Results go to the standard output, messages to the standard error. Options cannot be abbreviated "
      "or repeated. An option that several commands have is described at one of them.\n\n" +
      "Every command may end with these [exit codes](exit-codes.md):\n\n" +
      markdown_exit_codes(common_exit_codes());
  for (const Command& command : commands) {
    text += fmt::format("\n## ventris {}\n\n```\nventris {} {}\n```\n\n", command.name, command.name,
                        command.synopsis);
    for (const std::string& paragraph : command.description) text += paragraph + "\n\n";
    text += markdown_options(command, commands) + "\n";
    for (const Example& example : command.examples) {
      text += example.meaning + "\n\n```\n" + example_line(example) + "\n```\n\n";
    }
    if (!command.exit_codes.empty()) text += markdown_exit_codes(command.exit_codes);
  }
  return text;
}

}  // namespace ventris
